"""Accuracy of small models, contributions of ingredients, and comparisons with published models."""
