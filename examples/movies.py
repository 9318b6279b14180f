"""Users who rate movies, in the files of MovieLens, from these files to answers.

python examples/movies.py [FOLDER] [--size N]
"""

import numpy as np
from walkthrough import glace, size_in_folder, write_csv

GENRES = {
    "Action": "Chase Fire Escape Agent Bullet",
    "Comedy": "Wedding Holiday Neighbour Trouble Party",
    "Horror": "Night Ghost Scream Cellar Blood",
    "Romance": "Love Letter Heart Kiss Summer",
    "Sci-Fi": "Robot Galaxy Planet Orbit Future",
}

# Each user prefers one genre. Users and movies are both numbered from 1, so that user 5 must not become movie 5.
size, rng = size_in_folder(300), np.random.default_rng(0)
kinds, tastes = rng.choice(list(GENRES), size), rng.choice(list(GENRES), size)
movies = []
for movie, genre in enumerate(kinds, start=1):
    one, two = rng.choice(GENRES[genre].split(), 2, replace=False)
    genres = genre if rng.random() < 0.6 else f"{genre}|Drama"
    movies.append((movie, f"{one} of the {two}, Part {movie % 4 + 1} ({rng.integers(1960, 2020)})", genres))
ratings = []
for user, taste in enumerate(tastes, start=1):
    likely = np.where(kinds == taste, 12.0, 1.0)
    for movie in rng.choice(size, 15, replace=False, p=likely / likely.sum()):
        stars = rng.integers(6, 11) / 2 if kinds[movie] == taste else rng.integers(1, 7) / 2
        ratings.append((user, movie + 1, stars, 964_980_000 + int(rng.integers(10**8))))
write_csv("movies.csv", "movieId,title,genres", movies)
write_csv("ratings.csv", "userId,movieId,rating,timestamp", ratings)
new = [(size + 1, "The Robot and the Planet (2021)", "Sci-Fi"), (size + 2, "A Kiss in Summer (2021)", "Romance|Drama")]
write_csv("new.csv", "movieId,title,genres", new)

glace(
    "fit --edges user:movie=ratings.csv --source-column userId --target-column movieId --weight-column rating "
    "--weights preference "
    "--attributes movie=movies.csv --id-column movie=movieId --purpose nodes -o movies.glace"
)
glace("links movies.glace user:1 -k 5 --show title --show genres")
glace("neighbors movies.glace movie:1 --node-type movie -k 5 --show title --show genres")
glace("embed movies.glace --node-type movie --attributes new.csv -o new.parquet")
glace("neighbors movies.glace --of new.parquet --node-type movie -k 3 --show title --show genres")
glace("links movies.glace --of new.parquet --node-type user -k 5")
glace(f"score movies.glace user:1 {size + 1} --of new.parquet")
