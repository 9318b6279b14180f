"""A networkx graph without attributes: who is near whom in Les Misérables."""

import networkx as nx

import glace

# An edge joins two characters who appear together; its weight says in how many chapters.
graph = glace.from_networkx(nx.les_miserables_graph())
print(graph)

# Without attributes a node is known by its identity alone. There is nothing to hold out from a graph
# this small: train on all edges, to the last step.
model = glace.GLACE(dim=8, hidden=32, max_steps=300, validation_fraction=0).fit(graph)
embedding = model.embedding_

for character in ("Valjean", "Cosette", "Enjolras", "Fantine"):
    found = embedding.neighbors(character, k=4)
    assert found.probability is not None
    similar = [f"{other} ({chance:.2f})" for other, chance in zip(found.id, found.probability, strict=True)]
    print(f"nearest to {character}: {', '.join(similar)}")

friends = [("Enjolras", "Combeferre"), ("Enjolras", "Fantine")]
for (one, other), distance in zip(friends, embedding.dissimilarities(friends), strict=True):
    print(f"dissimilarity of {one} and {other}: {distance:.1f}")
