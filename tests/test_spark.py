"""Spark embeds what `glace embed` does, bit by bit. Runs where pyspark and Java are installed."""

import shutil
import sys

import pyarrow as pa
import pytest

import glace
import glace.spark
from glace.errors import InputError
from tests.fitted.test_batches import case_of

pyspark = pytest.importorskip("pyspark", reason="Spark is tried where it is installed: pip install '.[spark]'")
if shutil.which("java") is None:
    pytest.skip("Spark needs Java: apt-get install default-jre-headless", allow_module_level=True)

BATCH = "spark.sql.execution.arrow.maxRecordsPerBatch"
pytestmark = pytest.mark.filterwarnings("ignore")  # of libraries


@pytest.fixture(scope="module")
def spark():
    from pyspark.sql import SparkSession

    # Two executors in processes of their own, as on a cluster.
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.executorEnv.PYTHONPATH", ":".join(sys.path))
    session = builder.config("spark.pyspark.python", sys.executable).config(BATCH, "70").getOrCreate()
    yield session
    session.stop()


@pytest.mark.parametrize("kind", ["sparse", "dense", "mixed"])
def test_spark_gives_the_bits_of_embed_batches(spark, tmp_path, kind):
    model, table = case_of(kind)
    model.save(tmp_path / "m.glace")
    frame = spark.createDataFrame(table).repartition(3)
    found = pa.Table.from_pandas(glace.spark.embed(frame, tmp_path / "m.glace").toPandas(), preserve_index=False)
    (expected,) = glace.embed_batches(model)(table.combine_chunks().to_batches())
    whole = pa.Table.from_batches([expected]).sort_by("id")
    found = found.cast(glace.spark._for_spark(whole.schema)).sort_by("id")
    assert found.equals(whole.cast(found.schema))


def test_ids_that_are_no_ids(spark, tmp_path):
    case_of("sparse")[0].save(tmp_path / "m.glace")
    frame = spark.createDataFrame([(1.5, [0], [1.0])], ["id", "columns", "values"])
    with pytest.raises(InputError, match="the frame: ids must be strings or integers, but column 'id' holds double"):
        glace.spark.embed(frame, tmp_path / "m.glace")
