"""Packages with descriptions and dependencies, as in a Linux distribution, from two raw files to answers.

python examples/packages.py [FOLDER] [--size N]
"""

import itertools

import numpy as np
from walkthrough import glace, size_in_folder, write_csv

WORDS = {
    "editors": "text file line syntax macro buffer window outline spelling markdown",
    "games": "game player level puzzle card board chess score arcade dungeon",
    "graphics": "image picture photo drawing colour pixel vector camera thumbnail palette",
    "mail": "mail message mailbox address folder spam filter thread attachment newsletter",
    "net": "network client server protocol packet proxy socket download router firewall",
    "science": "matrix statistics simulation equation plot solver molecule astronomy genome climate",
    "sound": "sound audio music codec mixer midi synthesizer sample recording podcast",
    "web": "browser page site blog feed cookie bookmark template wiki session",
}
PHRASES = ("{} and {} tool with {} support", "manages {} and {}, and has a {}", "small program for every {}: {}, {}")

# A section has libraries and programs, named after what they are about; both depend on libraries of their section.
size, rng = size_in_folder(640), np.random.default_rng(0)
packages, depends = [], set()
for section, listed in WORDS.items():
    words = listed.split()
    pairs = rng.permutation(list(itertools.permutations(words, 2)))[: size // len(WORDS)]
    names = [f"lib{''.join(pair)}" if place % 5 == 0 else "-".join(pair) for place, pair in enumerate(pairs)]
    for name, pair in zip(names, pairs, strict=True):
        description = str(rng.choice(PHRASES)).format(*pair, rng.choice(words))
        packages.append((name, description, section))
        depends |= {(name, str(each)) for each in rng.choice(names[::5], 3) if each != name}
# Some dependencies lead to another section, and some to a virtual package, which no row describes.
libraries = [name for name, _, _ in packages if name.startswith("lib")]
depends |= {(name, str(rng.choice(libraries))) for name, _, _ in packages[::6]}
depends |= {(name, "mail-transport-agent") for name, _, section in packages[::2] if section == "mail"}
write_csv("packages.csv", "name,description,section", packages)
write_csv("depends.csv", "package,depends", sorted(depends))
write_csv("new.csv", "name,description", [("tune-box", "plays music and every podcast, with a mixer for audio")])

some = next(name for name, _, section in packages if section == "sound" and "-" in name)
glace(
    "fit --edges depends.csv --directed --texts packages.csv --text-column description --label-column section "
    "--nodes-without-attributes empty --purpose nodes -o packages.glace"
)
glace(f"neighbors packages.glace {some} -k 5 --show description")
glace(f"links packages.glace {some} -k 5 --why")
glace("embed packages.glace --texts new.csv --text-column description -o new.parquet")
glace("links packages.glace --of new.parquet -k 5")
glace("clusters packages.glace")
