"""The compiler: a frozen graph becomes a program over one arena, C sources, and a library that is audited."""
