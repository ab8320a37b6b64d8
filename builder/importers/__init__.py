"""Any trained model in, one frozen GraphDef with static feeds out; ``model_import`` is the way through."""
