"""Makes the Jackson classes that Iceberg's Spark jar expects under a name of its own, from the ones Spark ships.

The jar in `snowpark-connect-deps-iceberg` refers to `org.apache.iceberg.shaded.com.fasterxml.jackson` and does not hold
it. The same classes under that name are made by renaming the package in each class file's constant pool.

  python shade.py SPARK_JARS_DIRECTORY OUTPUT.jar
"""

import pathlib
import struct
import sys
import zipfile

NEEDED = ("jackson-core-2", "jackson-databind-2", "jackson-annotations-2")
OLD, NEW = b"com/fasterxml/jackson", b"org/apache/iceberg/shaded/com/fasterxml/jackson"

# Size of each constant's body by tag, from the Java virtual machine specification, 4.4; Utf8 (1) has a length instead.
BODY = {3: 4, 4: 4, 5: 8, 6: 8, 7: 2, 8: 2, 9: 4, 10: 4, 11: 4, 12: 4, 15: 3, 16: 2, 17: 4, 18: 4, 19: 2, 20: 2}


def renamed(text):
    return text.replace(OLD, NEW).replace(OLD.replace(b"/", b"."), NEW.replace(b"/", b"."))


def shaded_class(data):
    """A class file with every Utf8 constant renamed; all else refers to constants by number and stays as it is."""
    (count,) = struct.unpack_from(">H", data, 8)
    out, at, number = [data[:10]], 10, 1
    while number < count:
        tag = data[at]
        if tag == 1:
            (length,) = struct.unpack_from(">H", data, at + 1)
            text = renamed(data[at + 3 : at + 3 + length])
            out.append(struct.pack(">BH", 1, len(text)) + text)
            at += 3 + length
        else:
            out.append(data[at : at + 1 + BODY[tag]])
            at += 1 + BODY[tag]
        # Long and double take two numbers.
        number += 2 if tag in (5, 6) else 1
    return b"".join(out) + data[at:]


def main(jars, output):
    with zipfile.ZipFile(output, "w", zipfile.ZIP_DEFLATED) as shaded:
        for prefix in NEEDED:
            (jar,) = pathlib.Path(jars).glob(f"{prefix}*.jar")
            with zipfile.ZipFile(jar) as original:
                for entry in original.infolist():
                    name = renamed(entry.filename.encode()).decode()
                    if name.endswith(".class") and not name.endswith("module-info.class") and NEW.decode() in name:
                        shaded.writestr(name, shaded_class(original.read(entry)))


main(*sys.argv[1:])
