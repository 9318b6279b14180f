"""The front door: estimators in the manner of scikit-learn, and their files."""
