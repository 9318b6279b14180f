"""A NetworkX graph without attributes: similar characters in Les Misérables."""

import networkx as nx

import glace

# An edge connects two characters who appear together; its weight is the number of chapters.
graph = glace.from_networkx(nx.les_miserables_graph())
print(graph)

# Without attributes, each node has its own row of weights (one-hot). The graph is too small to hold out validation
# edges: train on all edges for all steps.
model = glace.GLACE(dim=8, hidden=32, max_steps=300, validation_fraction=0).fit(graph)
embedding = model.embedding_

for character in ("Valjean", "Cosette", "Enjolras", "Fantine"):
    similar = embedding.neighbors(character, k=4).id
    print(f"most similar to {character}: {', '.join(map(str, similar))}")
    missing = model.model_.links(character, k=2, missing_edge_fraction=0.1).target
    print(f"most likely missing edges of {character}: {', '.join(map(str, missing))}")

friends = [("Enjolras", "Combeferre"), ("Enjolras", "Fantine")]
for (one, other), distance in zip(friends, embedding.dissimilarities(friends), strict=True):
    print(f"dissimilarity of {one} and {other}: {distance:.1f}")
