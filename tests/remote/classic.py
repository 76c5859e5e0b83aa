"""A classic session in a process of its own, because PySpark does not start one beside a Connect session.

The suites, a whole study, and a question that never ends.

python -m tests.remote.classic folder ansi
"""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from typing import Any

import pytest


def whole_study(session: Any, folder: Path) -> None:
    """Equal to memory to the bit; in between, a question that never ends is interrupted, and leaves no job behind."""
    import everhold as eh
    from everhold.errors import DataError
    from tests.remote.spark_rows import PATIENTS, write
    from tests.remote.study import SCHEMA, close, patients, play

    columns, file = patients(1_000, 2), folder / "patients.parquet"
    write(file, columns, PATIENTS)
    prior = eh.Reference({name: values for name, values in patients(2_000, 1, smokers=0.3).items() if name != "patient"})
    options = {"prior": prior, "schema": SCHEMA, "seed": 5}
    session.read.parquet(str(file)).createOrReplaceTempView("patients")
    described = eh.Spark("patients", session=session)
    remote = eh.Holdout.create(folder / "study.everhold", described, **options)
    memory = eh.Holdout(columns, **options)
    price = remote.price
    session.sql(
        f"SELECT p.* FROM parquet.`{file}` AS p CROSS JOIN (SELECT count(*) AS n FROM range(0, 9000000000000000000, 1, 4)) "
        "WHERE n > 0"
    ).createOrReplaceTempView("patients")
    rows = remote.session.sample._engine._rows
    rows._described = eh.Spark("patients", session=session, seconds=0.2)
    with pytest.raises(DataError, match=r"took longer than 0.2 s. Nothing was charged"):
        remote.ask("smoker")
    assert remote.price == price
    assert not session.sparkContext.getJobTags()
    while session.sparkContext.statusTracker().getActiveJobsIds():
        pass  # a job that was not ended would stay for ages
    rows._described = described
    session.read.parquet(str(file)).createOrReplaceTempView("patients")
    assert play(remote) == play(memory)
    remote.release()
    again = eh.Holdout.open(folder / "study.everhold", data=described)
    assert close(again) == close(memory)
    assert again.audit().ok
    again.release()


def main(folder: Path, ansi: str) -> None:
    """The suites, through a session of the user's own, none of whose settings changes; a table by name and a view."""
    warnings.simplefilter("ignore", FutureWarning)  # PySpark 4.3 about pandas 3
    from pyspark.sql import SparkSession

    import everhold as eh
    from everhold.data.database_urls import open_table
    from tests.remote.agreement import check_random, check_traps
    from tests.remote.spark_rows import write_random, write_traps

    settings = {
        "spark.ui.enabled": "false", "spark.sql.shuffle.partitions": "2", "spark.sql.session.timeZone": "Asia/Kolkata",
        "spark.sql.ansi.enabled": ansi, "spark.sql.caseSensitive": "true", "spark.sql.codegen.wholeStage": "false",
        "spark.sql.analyzer.maxIterations": "1000", "spark.driver.bindAddress": "127.0.0.1", "spark.driver.host": "127.0.0.1", "spark.local.dir": str(folder),
        "spark.sql.warehouse.dir": str(folder / "warehouse"), "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    }  # fmt: skip
    builder = SparkSession.builder.master("local[2]")
    for name, value in settings.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    before = {row.key: row.value for row in session.sql("SET").collect()}
    traps, random_rows = write_traps(folder / "traps.parquet"), write_random(folder / "random.parquet")
    session.read.parquet(str(folder / "random.parquet")).write.mode("overwrite").saveAsTable("random_rows")
    session.read.parquet(str(folder / "traps.parquet")).createOrReplaceTempView("trap_rows")
    table = open_table(eh.Spark("default.random_rows", session=session), what="rows", private=True)
    assert table._of_files, "a table of Parquet files has files"
    check_random(table, random_rows, seeds=[0], batch=125)
    files = open_table(eh.Spark(str(folder / "traps.parquet"), session=session), what="rows", private=True)
    check_traps(files, traps, every=2 if ansi == "true" else 5, batch=70)
    check_traps(open_table(eh.Spark("trap_rows", session=session), what="rows", private=True), traps, every=20)
    whole_study(session, folder)
    assert {row.key: row.value for row in session.sql("SET").collect()} == before, "a setting of the session has changed"
    assert not [row.tableName for row in session.sql("SHOW TABLES").collect() if row.tableName.startswith("everhold")]
    session.stop()
    print("classic sessions agree")


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
