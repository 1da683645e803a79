"""Optuna, Ray Tune, Transformers and Lightning. Each module needs its library."""
