"""Images as nodes: handwritten digits with edges to similar ones; new digits are embedded from their pixels.

python examples/digits.py [--picture FILE]
"""

import argparse
from pathlib import Path

import numpy as np
from scipy.sparse import coo_array
from sklearn.datasets import load_digits
from sklearn.linear_model import LogisticRegression

import glace

parser = argparse.ArgumentParser()
parser.add_argument("--picture", type=Path)
picture = parser.parse_args().picture

# 1,797 images of 8 x 8 pixels from scikit-learn, each with edges to the five nearest. A fifth is hidden.
pixels, digits = load_digits(return_X_y=True)
squares = (pixels**2).sum(axis=1)
nearest = np.argsort(squares - 2 * pixels @ pixels.T, axis=1, kind="stable")[:, :6]
edges = coo_array((np.ones(nearest.size), (np.repeat(np.arange(len(pixels)), 6), nearest.ravel()))).tocsr()
hidden = np.random.default_rng(0).permutation(len(pixels)) < len(pixels) // 5
seen = np.flatnonzero(~hidden)


def fitted(graph: glace.Graph) -> glace.GLACE:
    encoder = glace.Image(size=(8, 8), filters=(4,))
    return glace.GLACE(encoder=encoder, dim=16, hidden=64, batch_size=128, max_steps=120, offset="learned").fit(graph)


def accuracy(train: glace.Embedding, labels: np.ndarray, test: glace.Embedding, truth: np.ndarray) -> float:
    return float(LogisticRegression(max_iter=2000).fit(train.mean, labels).score(test.mean, truth))


# The upper limit: all images with all their edges. Only the classifier sees labels.
whole = fitted(glace.from_arrays(edges, pixels)).embedding_
best = accuracy(whole.take(seen), digits[seen], whole.take(np.flatnonzero(hidden)), digits[hidden])

# Train without the hidden images, and embed these from their pixels, without edges.
model = fitted(glace.from_arrays(edges[seen][:, seen], pixels[seen]))
new = model.transform(pixels[hidden])
alone = accuracy(model.embedding_, digits[seen], new, digits[hidden])
print(f"accuracy on images that were part of the graph: {best:.1%}")
print(f"accuracy on new images, embedded from their pixels: {alone:.1%} ({alone / best:.1%} of the above)")

if picture:
    from matplotlib import pyplot

    nearest, _ = model.embedding_.nearest_to(new.take(np.arange(12)), 5)
    figure, axes = pyplot.subplots(6, 12, figsize=(9, 4.6), layout="constrained")
    for column, neighbors in enumerate(nearest):
        shown = [pixels[hidden][column], *pixels[seen][neighbors]]
        for row, image in enumerate(shown):
            axes[row, column].imshow(image.reshape(8, 8), cmap="Blues" if row else "Reds")
            axes[row, column].set_axis_off()
    figure.suptitle("New images (red), and below each the five most similar known images")
    figure.savefig(picture, dpi=110)
