"""The peers' functions. Each file is packed as one function's ``app.py``, beside ``service.py`` and its model."""
