"""Nodes with texts: train on definitions of nouns in WordNet, then embed new definitions."""

import glace

graph = glace.datasets.load("wordnet-nouns")
print(graph)

model = glace.GLACE(dim=32, hidden=128, max_steps=100, purpose="nodes").fit(graph)
assert model.history_.best is not None
print(f"AUC of held-out edges: {model.history_.best.auc:.3f}")

for node in ("n:dog", "n:piano", "n:apple"):
    print(f"most similar to {node}:", ", ".join(str(each) for each in model.embedding_.neighbors(node, k=5).id))

# The model contains the text pipeline of the graph, so it takes new texts directly.
texts = {
    "pet": "a small domesticated furry mammal kept as a pet",
    "fiddle": "a musical instrument with strings, played with a bow",
    "orchard": "a fruit tree grown for its sweet red fruit",
}
new = model.transform(list(texts.values()), ids=list(texts))
rows, dissimilarities = model.embedding_.nearest_to(new, k=5)
assert graph.labels is not None
for text, nearest, values in zip(texts.values(), rows, dissimilarities, strict=True):
    print(f'"{text}" is similar to')
    for row, dissimilarity in zip(nearest, values, strict=True):
        print(f"  {model.embedding_.ids[row]!s:28} {graph.labels[row]!s:10} {dissimilarity:.2f}")
