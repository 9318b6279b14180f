"""Ray embeds what `glace embed` does, bit by bit. Runs where Ray is installed."""

import pyarrow as pa
import pytest

import glace
import glace.ray
from tests.fitted.test_batches import case_of

ray = pytest.importorskip("ray", reason="Ray is tried where it is installed: pip install '.[ray]'")

pytestmark = pytest.mark.filterwarnings("ignore")  # of libraries


@pytest.fixture(scope="module")
def cluster():
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=1 << 27)
    yield
    ray.shutdown()


@pytest.mark.parametrize("kind", ["sparse", "dense", "mixed"])
def test_ray_gives_the_bits_of_embed_batches(cluster, tmp_path, kind):
    model, table = case_of(kind)
    model.save(tmp_path / "m.glace")
    dataset = ray.data.from_arrow([table[:100], table[100:]])
    embedded = glace.ray.embed(dataset, tmp_path / "m.glace", batch_size=70)
    found = pa.concat_tables(ray.get(embedded.to_arrow_refs())).sort_by("id")
    (expected,) = glace.embed_batches(model)(table.combine_chunks().to_batches())
    whole = pa.Table.from_batches([expected]).sort_by("id")
    assert found.cast(whole.schema).equals(whole)
