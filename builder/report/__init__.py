"""What a person looks at after a build."""
