//! Counts the records of an Avro container file (Apache Avro specification, "Object Container Files"), which is all that
//! has to be known of a manifest list to see whether it grows.

use std::path::Path;

use anyhow::{Context, ensure};

/// How many records a file holds.
pub fn count_records(path: &Path) -> anyhow::Result<u64> {
    let bytes = std::fs::read(path).with_context(|| format!("reading {}", path.display()))?;
    count(&bytes).with_context(|| format!("{} is no Avro file", path.display()))
}

fn count(mut rest: &[u8]) -> anyhow::Result<u64> {
    const SYNC: usize = 16;
    ensure!(take(&mut rest, 4)? == b"Obj\x01", "the magic is missing");
    // The header's map comes in blocks of entries; one of none ends it, and a negative count is followed by a size.
    loop {
        let entries = long(&mut rest)?;
        if entries == 0 {
            break;
        }
        if entries < 0 {
            long(&mut rest)?;
        }
        for _ in 0..entries.unsigned_abs() * 2 {
            let length = usize::try_from(long(&mut rest)?)?;
            take(&mut rest, length)?;
        }
    }
    take(&mut rest, SYNC)?;
    let mut records = 0;
    while !rest.is_empty() {
        records += u64::try_from(long(&mut rest)?)?;
        let length = usize::try_from(long(&mut rest)?)?;
        take(&mut rest, length + SYNC)?;
    }
    Ok(records)
}

fn take<'a>(rest: &mut &'a [u8], length: usize) -> anyhow::Result<&'a [u8]> {
    let (taken, left) = rest.split_at_checked(length).context("it ends too early")?;
    *rest = left;
    Ok(taken)
}

/// A variable-length zig-zag number.
fn long(rest: &mut &[u8]) -> anyhow::Result<i64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let byte = take(rest, 1)?[0];
        value |= u64::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return Ok((value >> 1).cast_signed() ^ -(value & 1).cast_signed());
        }
    }
    anyhow::bail!("a number does not end")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_are_counted_over_blocks() {
        let mut file = b"Obj\x01".to_vec();
        file.extend([2, 2, b'k', 2, b'v', 0]); // one entry, then the end of the map
        file.extend([7; 16]);
        for (records, data) in [(6, vec![1, 2]), (4, vec![])] {
            file.push(records);
            file.push(u8::try_from(data.len() * 2).expect("short"));
            file.extend(data);
            file.extend([7; 16]);
        }
        assert_eq!(count(&file).expect("it is whole"), 5);
        assert!(count(&file[..file.len() - 1]).is_err());
    }
}
