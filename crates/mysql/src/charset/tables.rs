//! Character sets by table, as the servers have them (`generate.py`).

use std::io::Read;
use std::sync::LazyLock;

use super::generated::{SETS, TABLE_BYTES};
use super::unicode::push;

/// How many bytes the longest character of a set has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    Single,
    Double,
    Triple,
}

/// Code points, 0 for bytes that are no character.
pub(super) struct Table {
    /// Of single bytes; [`LEAD`] for the first of several.
    single: Vec<u16>,
    /// Of two bytes, by [`FIRST`] and [`SECOND`].
    double: Vec<u16>,
    /// Of [`TRIPLE_LEAD`] and two bytes from [`THIRD`] on.
    triple: Vec<u16>,
}

const LEAD: u16 = 0xFFFF;
/// The lowest first byte, the lowest second byte and how many second bytes there are.
const FIRST: u8 = 0x81;
const SECOND: (u8, usize) = (0x40, 0xFF - 0x40);
const TRIPLE_LEAD: u8 = 0x8F;
const THIRD: (u8, usize) = (0xA1, 0xFF - 0xA1);

const SINGLES: usize = 256;
const DOUBLES: usize = (0xFF - 0x81) * SECOND.1;
const TRIPLES: usize = THIRD.1 * THIRD.1;

static TABLES: LazyLock<Vec<Table>> = LazyLock::new(inflate);

/// The tables come with the program, so they are whole.
fn inflate() -> Vec<Table> {
    let packed: &[u8] = include_bytes!("tables.bin");
    let mut bytes = Vec::with_capacity(TABLE_BYTES);
    flate2::read::ZlibDecoder::new(packed).read_to_end(&mut bytes).expect("the tables of character sets are whole");
    assert_eq!(bytes.len(), TABLE_BYTES, "the tables of character sets are whole");
    let (pairs, _) = bytes.as_chunks::<2>();
    let mut points = pairs.iter().map(|pair| u16::from_le_bytes(*pair));
    let mut take = |count: usize| points.by_ref().take(count).collect::<Vec<u16>>();
    SETS.iter()
        .map(|(_, shape)| Table {
            single: take(SINGLES),
            double: take(if *shape == Shape::Single { 0 } else { DOUBLES }),
            triple: take(if *shape == Shape::Triple { TRIPLES } else { 0 }),
        })
        .collect()
}

impl Table {
    /// The table at this place of [`SETS`].
    pub(super) fn of(index: usize) -> Option<&'static Self> {
        TABLES.get(index)
    }

    /// Appends the text. None where a byte begins no character, or one ends too early.
    pub(super) fn decode(&self, bytes: &[u8], out: &mut Vec<u8>) -> Option<()> {
        out.reserve(bytes.len());
        let mut rest = bytes;
        while let Some((&first, after)) = rest.split_first() {
            let point = *self.single.get(usize::from(first))?;
            rest = after;
            match point {
                0 if first == 0 => out.push(0),
                1..=0x7F => out.push(point.to_le_bytes()[0]),
                LEAD => push(self.several(first, &mut rest)?.into(), out)?,
                0 => return None,
                _ => push(point.into(), out)?,
            }
        }
        Some(())
    }

    /// A character of two or three bytes, the first of which is taken already.
    fn several(&self, first: u8, rest: &mut &[u8]) -> Option<u16> {
        let place = |byte: u8, (lowest, count): (u8, usize)| {
            Some(usize::from(byte.checked_sub(lowest)?)).filter(|place| place < &count)
        };
        let point = match **rest {
            [second, third, ref after @ ..] if first == TRIPLE_LEAD && !self.triple.is_empty() => {
                *rest = after;
                self.triple.get(place(second, THIRD)? * THIRD.1 + place(third, THIRD)?)
            }
            [second, ref after @ ..] => {
                *rest = after;
                self.double.get(usize::from(first.checked_sub(FIRST)?) * SECOND.1 + place(second, SECOND)?)
            }
            [] => None,
        };
        point.copied().filter(|point| *point != 0)
    }
}
