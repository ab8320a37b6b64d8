"""The import of any trained model as one frozen GraphDef with static feeds, which begins in ``model_import``."""
