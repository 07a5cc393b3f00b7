//! The types of the random tables: values for each, and what it can be widened to.

use calve_testkit::servers::Kind;

use crate::random::Random;

/// A column's type as SQL has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Type {
    pub(super) sql: &'static str,
    values: Values,
    /// The types that hold all its values without their being converted.
    wider: &'static [&'static str],
}

/// What is put into columns of a type.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Values {
    /// Up to this far from 0.
    Integer(u64),
    /// With digits after the point.
    Decimal(u32),
    /// Quarters, which every float holds.
    Quarter,
    Boolean,
    /// Of so many characters at most.
    Text(u64),
    Date,
    /// A date and a clock; no instant that a change of the clocks leaves out.
    Timestamp,
    Clock,
    Uuid,
    Json,
    /// Of so many bytes at most.
    Bytes(u64),
    Label(&'static [&'static str]),
    Year,
}

use Values::{Boolean, Bytes, Clock, Date, Decimal, Integer, Json, Label, Quarter, Text, Timestamp, Uuid, Year};

const fn of(sql: &'static str, values: Values, wider: &'static [&'static str]) -> Type {
    Type { sql, values, wider }
}

const POSTGRES: &[Type] = &[
    of("smallint", Integer(30_000), &["integer", "bigint"]),
    of("integer", Integer(2_000_000_000), &["bigint"]),
    of("bigint", Integer(9_000_000_000_000_000_000), &[]),
    of("numeric(12,3)", Decimal(3), &["numeric(18,3)"]),
    of("numeric(18,3)", Decimal(3), &[]),
    of("real", Quarter, &["double precision"]),
    of("double precision", Quarter, &[]),
    of("boolean", Boolean, &[]),
    of("varchar(20)", Text(20), &["varchar(60)", "text"]),
    of("varchar(60)", Text(60), &["text"]),
    of("text", Text(300), &[]),
    of("date", Date, &[]),
    of("timestamp", Timestamp, &[]),
    of("timestamptz", Timestamp, &[]),
    of("time", Clock, &[]),
    of("uuid", Uuid, &[]),
    of("jsonb", Json, &[]),
    of("bytea", Bytes(200), &[]),
];

const MYSQL: &[Type] = &[
    of("tinyint", Integer(100), &["smallint", "int", "bigint"]),
    of("smallint", Integer(30_000), &["int", "bigint"]),
    of("int", Integer(2_000_000_000), &["bigint"]),
    of("bigint", Integer(9_000_000_000_000_000_000), &[]),
    of("decimal(12,3)", Decimal(3), &["decimal(18,3)"]),
    of("decimal(18,3)", Decimal(3), &[]),
    of("float", Quarter, &["double"]),
    of("double", Quarter, &[]),
    of("varchar(20)", Text(20), &["varchar(60)"]),
    of("varchar(60)", Text(60), &[]),
    of("text", Text(300), &["mediumtext"]),
    of("mediumtext", Text(300), &[]),
    of("date", Date, &[]),
    of("datetime", Timestamp, &["datetime(6)"]),
    of("datetime(6)", Timestamp, &[]),
    of("timestamp", Timestamp, &[]),
    of("time", Clock, &[]),
    of("varbinary(200)", Bytes(200), &[]),
    of("blob", Bytes(200), &[]),
    of("enum('a','b')", Label(&["a", "b"]), &["enum('a','b','c')"]),
    of("enum('a','b','c')", Label(&["a", "b", "c"]), &[]),
    of("year", Year, &[]),
];

/// All types for columns of a source.
pub(super) fn all(kind: Kind) -> &'static [Type] {
    if kind == Kind::Postgres { POSTGRES } else { MYSQL }
}

impl Type {
    /// The type that every value can become as text.
    pub(super) fn text(kind: Kind) -> Self {
        let named = if kind == Kind::Postgres { "text" } else { "mediumtext" };
        *all(kind).iter().find(|ty| ty.sql == named).expect("there is a type for text")
    }

    /// A wider one.
    pub(super) fn widened(self, kind: Kind, random: &mut Random) -> Option<Self> {
        if self.wider.is_empty() {
            return None;
        }
        let named = random.pick(self.wider);
        all(kind).iter().copied().find(|ty| ty.sql == *named)
    }

    /// A value as SQL has it.
    pub(super) fn literal(self, kind: Kind, random: &mut Random) -> String {
        let sign = if random.chance(50) { "-" } else { "" };
        match self.values {
            Integer(most) => format!("{sign}{}", random.below(most)),
            Decimal(digits) => format!("{sign}{}.{:03}", random.below(100_000_000), random.below(10_u64.pow(digits))),
            Quarter => format!("{sign}{}.{}", random.below(100_000), random.pick(&["0", "25", "5", "75"])),
            Boolean => random.pick(&["true", "false"]).to_string(),
            Text(most) => format!("'{}'", text(most, random)),
            Date => format!("'{}'", date(random)),
            Timestamp => format!("'{} {}'", date(random), clock(random)),
            Clock => format!("'{}'", clock(random)),
            Uuid => {
                let hex = format!("{:016x}{:016x}", random.bits(), random.bits());
                format!("'{}-{}-{}-{}-{}'", &hex[..8], &hex[8..12], &hex[12..16], &hex[16..20], &hex[20..])
            }
            Json => format!("'{{\"n\": {}, \"of\": [null, \"{:x}\", \"\u{e9}\"]}}'", random.below(1000), random.bits()),
            Bytes(most) => {
                let hex = hex(random.below(most), random);
                if kind == Kind::Postgres { format!("'\\x{hex}'") } else { format!("x'{hex}'") }
            }
            Label(labels) => format!("'{}'", random.pick(labels)),
            Year => format!("{}", random.between(1901, 2156)),
        }
    }
}

/// Letters of one byte and more.
fn text(most: u64, random: &mut Random) -> String {
    (0..random.below(most))
        .map(|_| *random.pick(&['a', 'B', '7', ' ', '"', '\u{e9}', '\u{4e2d}', '\u{1f600}']))
        .collect()
}

fn hex(bytes: u64, random: &mut Random) -> String {
    use std::fmt::Write as _;
    (0..bytes).fold(String::new(), |mut hex, _| {
        let _ = write!(hex, "{:02x}", random.below(256));
        hex
    })
}

fn date(random: &mut Random) -> String {
    format!("{}-{:02}-{:02}", random.between(1971, 2038), random.between(1, 13), random.between(1, 29))
}

fn clock(random: &mut Random) -> String {
    // Hours at which no zone changes its clocks.
    format!("{:02}:{:02}:{:02}", random.between(6, 22), random.below(60), random.below(60))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_type_is_widened_to_is_a_type() {
        for kind in [Kind::Postgres, Kind::MySql] {
            for ty in all(kind) {
                for wider in ty.wider {
                    assert!(all(kind).iter().any(|known| known.sql == *wider), "{wider}");
                }
            }
            assert!(Type::text(kind).wider.is_empty());
        }
    }
}
