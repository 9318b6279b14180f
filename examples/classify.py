"""Classify nodes by a linear model on their means, trained on a tenth of the labels.

The Gaussians are learned from edges and words alone, without labels.
"""

import numpy as np
from sklearn.linear_model import LogisticRegression

import glace

graph = glace.datasets.load("wordnet-nouns")
labels = np.array(list(graph.labels or []))
model = glace.GLACE(max_steps=100, purpose="nodes").fit(graph)

known = np.random.default_rng(0).random(graph.num_nodes) < 0.1
classifier = LogisticRegression(max_iter=1000).fit(model.embedding_.mean[known], labels[known])
accuracy = classifier.score(model.embedding_.mean[~known], labels[~known])
most_common = max(np.mean(labels == name) for name in np.unique(labels))
print(f"{known.sum():,} labels known, {(~known).sum():,} predicted")
print(f"accuracy: {accuracy:.1%}  (always predicting the most common label: {most_common:.1%})")
