"""Accuracy: small models, ingredients, and published ones."""
