"""The whole function, ours and as one would write it on other engines, in Lambda's emulator."""
