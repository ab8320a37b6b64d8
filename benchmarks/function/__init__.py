"""The whole function in Lambda's emulator: ours, and functions as one would write them on other engines."""
