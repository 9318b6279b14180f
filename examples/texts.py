"""Nodes described by words: fit on noun definitions of WordNet, then place definitions of our own."""

import glace

graph = glace.datasets.load("wordnet-nouns")
print(graph)

model = glace.GLACE(dim=32, hidden=128, max_steps=100, purpose="nodes").fit(graph)
assert model.history_.best is not None
print(f"AUC of held-out edges: {model.history_.best.auc:.3f}")

for node in ("n:dog", "n:piano", "n:apple"):
    print(f"nearest to {node}:", ", ".join(str(each) for each in model.embedding_.neighbors(node, k=5).id))

# The graph was made from texts, so the model knows how words become attributes.
texts = {
    "pet": "a small domesticated furry mammal kept as a pet",
    "fiddle": "a musical instrument with strings, played with a bow",
    "orchard": "a fruit tree grown for its sweet red fruit",
}
new = model.transform(list(texts.values()), ids=list(texts))
rows, dissimilarities = model.embedding_.nearest_to(new, k=5)
assert graph.labels is not None
for text, places, distances in zip(texts.values(), rows, dissimilarities, strict=True):
    print(f'"{text}" is near')
    for place, distance in zip(places, distances, strict=True):
        probability = float(model.embedding_.probabilities(distance))
        print(f"  {model.embedding_.ids[place]!s:28} {graph.labels[place]!s:10} {probability:.2f}")
