"""Spark with Iceberg's own Java implementation, the reference reader, behind the conversation of `serve.py`.

Spark has no time-of-day type: Iceberg refuses to show it a table with a `time` column.
"""

import os
import pathlib
import shutil
import sys

import canonical
import pyspark
import snowpark_connect_deps_iceberg
from pyspark.sql import SparkSession, functions, types
from serve import path_of, serve

ICEBERG_JAR = "iceberg-spark-runtime-3.5_2.12-*.jar"


def use_java_17():
    """Points Spark at a Java it runs on: the one in JAVA_HOME, else a 17 of Debian's, else whatever `java` is."""
    if os.environ.get("JAVA_HOME"):
        return
    found = sorted(pathlib.Path("/usr/lib/jvm").glob("java-17-*"))
    if found:
        os.environ["JAVA_HOME"] = str(found[0])
    elif not shutil.which("java"):
        sys.exit("Spark needs Java 17; install it (apt-get install openjdk-17-jre-headless) or set JAVA_HOME")


def session(shaded_jackson):
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    jars = pathlib.Path(next(iter(snowpark_connect_deps_iceberg.__path__))) / "jars"
    runtime = next(iter(sorted(jars.glob(ICEBERG_JAR))), None)
    if runtime is None:
        sys.exit(f"no {ICEBERG_JAR} in {jars}; build the readers again (integration/readers/setup.sh)")
    settings = {
        "spark.driver.extraClassPath": f"{runtime}:{shaded_jackson}",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "1g",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
        # The catalog that a table read by its path goes through. What a cache would hide is what tests look for.
        "spark.sql.catalog.default_iceberg": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.default_iceberg.type": "hadoop",
        "spark.sql.catalog.default_iceberg.warehouse": "file:///nonexistent",
        "spark.sql.catalog.default_iceberg.cache-enabled": "false",
        # Procedures, for tests that have Spark rewrite a table.
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
    }
    builder = SparkSession.builder.master("local[2]").appName("calve readers")
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def plan(kind, column):
    """(column that yields a value without loss, canonical kind) for a column of a Spark type."""
    if isinstance(kind, types.ArrayType):
        inner_kind = plan(kind.elementType, functions.lit(None))[1]
        return functions.transform(column, lambda x: plan(kind.elementType, x)[0]), ("list", inner_kind)
    if isinstance(kind, types.MapType):
        kinds = [plan(part, functions.lit(None))[1] for part in (kind.keyType, kind.valueType)]
        return functions.map_entries(column), ("map", *kinds)
    if isinstance(kind, types.DateType):
        return functions.unix_date(column), "date"
    if isinstance(kind, types.TimestampType):
        return functions.unix_micros(column), "timestamptz"
    if isinstance(kind, types.TimestampNTZType):
        # The session's zone is UTC, so that the cast moves nothing.
        return functions.unix_micros(column.cast("timestamp")), "timestamp"
    if isinstance(kind, types.DecimalType):
        # Python gets small ones in engineering notation, 10E-39 for 1E-38.
        return column, canonical.decimal(kind.scale)
    plain = {
        types.BooleanType: "boolean",
        types.ByteType: "integer",
        types.ShortType: "integer",
        types.IntegerType: "integer",
        types.LongType: "integer",
        types.FloatType: "float",
        types.DoubleType: "double",
        types.BinaryType: "binary",
        types.StringType: "string",
    }
    if type(kind) in plain:
        return column, plain[type(kind)]
    raise TypeError(f"no canonical text for Spark's type {kind.simpleString()}")


def main():
    use_java_17()
    spark = session(sys.argv[1])

    def query(tables, sql):
        for name, table in tables.items():
            reader = spark.read.format("iceberg")
            if table.get("snapshot_id") is not None:
                reader = reader.option("snapshot-id", str(int(table["snapshot_id"])))
            reader.load("file://" + path_of(table["metadata"])).createOrReplaceTempView(name)
        frame = spark.sql(sql)
        columns = frame.columns
        # By place, since names may repeat.
        numbered = frame.toDF(*[f"c{at}" for at in range(len(columns))])
        planned = [plan(field.dataType, numbered[field.name]) for field in numbered.schema.fields]
        rows = numbered.select(*[column for column, _ in planned]).collect()
        texts = [[canonical.text(kind, value) for (_, kind), value in zip(planned, row, strict=True)] for row in rows]
        for name in tables:
            spark.catalog.dropTempView(name)
        return columns, texts

    serve(lambda: f"Spark {pyspark.__version__}", query)
    # Python would leave before the JVM, which then ends in its own time, holding on to our standard error.
    jvm = spark.sparkContext._gateway.proc
    spark.stop()
    jvm.stdin.close()
    jvm.wait(timeout=20)


main()
