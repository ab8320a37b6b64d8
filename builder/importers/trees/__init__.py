"""Ensembles of decision trees, as XGBoost and LightGBM write them."""
