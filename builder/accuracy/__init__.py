"""What a type of weights costs: the library's answers against TensorFlow's float32, on inputs that matter to a user."""
