"""Predict spatial gene expression from H&E whole-slide images."""
