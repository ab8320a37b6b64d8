"""A library that was built: how it is called, from Python and under an emulator."""
