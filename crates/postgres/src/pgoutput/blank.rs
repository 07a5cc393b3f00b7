//! Messages that are put aside, without the values that the lake does not get: what waits on local disk does not have them either.

use super::message::{Malformed, Relation};

const WHAT: &str = "message within a Stream";

/// Which cells of a relation's rows are blanked, by its columns' names; None where none is. Those of the key stay, whatever it is
/// called by now.
pub(super) fn left_out(
    relation: &Relation<'_>,
    leaves_out: impl Fn(&str) -> bool,
) -> Result<Option<Vec<bool>>, Malformed> {
    // Where whole rows are the identity every column counts as one of the key, and names alone can tell.
    let of_key = |is_key: bool| is_key && relation.replica_identity != b'f';
    let columns: Vec<bool> =
        relation.columns()?.iter().map(|column| !of_key(column.is_key) && leaves_out(column.name)).collect();
    Ok(columns.contains(&true).then_some(columns))
}

/// The body of an Insert, Update or Delete with NULL in these cells.
pub(super) fn blanked(body: &[u8], left_out: &[bool]) -> Result<Vec<u8>, Malformed> {
    let mut out = Vec::with_capacity(body.len());
    let mut rest = take(body, 4, &mut out)?;
    // Rows, each after a byte that says which one it is.
    while !rest.is_empty() {
        rest = take(rest, 1, &mut out)?;
        let count = rest.first_chunk().copied().map(u16::from_be_bytes).ok_or(Malformed::Short { what: WHAT })?;
        rest = take(rest, 2, &mut out)?;
        for cell in 0..usize::from(count) {
            let length = match rest.split_first() {
                Some((b'n' | b'u', _)) => 1,
                Some((b't' | b'b', value)) => {
                    let length = value.first_chunk().copied().map(u32::from_be_bytes);
                    5 + length.and_then(|length| usize::try_from(length).ok()).ok_or(Malformed::Short { what: WHAT })?
                }
                Some((byte, _)) => return Err(Malformed::Byte { what: "kind of cell", byte: *byte }),
                None => return Err(Malformed::Short { what: WHAT }),
            };
            if left_out.get(cell) == Some(&true) {
                rest = rest.get(length..).ok_or(Malformed::Short { what: WHAT })?;
                out.push(b'n');
            } else {
                rest = take(rest, length, &mut out)?;
            }
        }
    }
    Ok(out)
}

/// Moves bytes from the one to the other.
fn take<'a>(from: &'a [u8], count: usize, out: &mut Vec<u8>) -> Result<&'a [u8], Malformed> {
    let (taken, rest) = from.split_at_checked(count).ok_or(Malformed::Short { what: WHAT })?;
    out.extend_from_slice(taken);
    Ok(rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(kind: u8, cells: &[&str]) -> Vec<u8> {
        let mut bytes = vec![kind];
        bytes.extend(u16::try_from(cells.len()).unwrap().to_be_bytes());
        for cell in cells {
            match *cell {
                "NULL" => bytes.push(b'n'),
                "same" => bytes.push(b'u'),
                text => {
                    bytes.push(b't');
                    bytes.extend(u32::try_from(text.len()).unwrap().to_be_bytes());
                    bytes.extend(text.as_bytes());
                }
            }
        }
        bytes
    }

    #[test]
    fn what_is_left_out_is_null_and_the_rest_as_it_was() {
        let relation = 7_u32.to_be_bytes().to_vec();
        let left_out = [false, true, false, true];
        let before = row(b'O', &["1", "secret", "a", "same"]);
        let after = row(b'N', &["1", "NULL", "same", "a secret"]);
        let blanked_before = row(b'O', &["1", "NULL", "a", "NULL"]);
        let blanked_after = row(b'N', &["1", "NULL", "same", "NULL"]);
        for (message, expected) in [
            (vec![&relation, &after], vec![&relation, &blanked_after]),
            (vec![&relation, &before, &after], vec![&relation, &blanked_before, &blanked_after]),
        ] {
            let (message, expected) = (message.into_iter().flatten().copied(), expected.into_iter().flatten().copied());
            let message: Vec<u8> = message.collect();
            assert_eq!(blanked(&message, &left_out), Ok(expected.collect()));
            // Cut short it is refused, but between its rows.
            let ends = [4, 4 + before.len()];
            for end in (0..message.len()).filter(|end| !ends.contains(end)) {
                assert!(blanked(&message[..end], &left_out).is_err(), "{end}");
            }
        }
        let mut unknown = [&relation[..], &after].concat();
        unknown[7] = b'x';
        assert_eq!(blanked(&unknown, &left_out), Err(Malformed::Byte { what: "kind of cell", byte: b'x' }));
    }
}
