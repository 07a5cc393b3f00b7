//! What the lists are made of.

use calve_testkit::servers::Kind;

/// A type as it stands in a list.
#[derive(Clone, Copy)]
pub(super) struct Listed {
    pub(super) sql: &'static str,
    /// Values as SQL: the least, the greatest, zero, and what tends to go wrong. Each is another one to the readers than those beside it
    /// (the first and the last are beside NULL), best by as little as can be: the test shows that the comparison tells them apart.
    pub(super) values: &'static [&'static str],
    pub(super) key: Key,
    /// Two values that a key's index takes for one, and the server prints differently.
    pub(super) equal: Option<[&'static str; 2]>,
    /// Why Spark cannot show it, where it cannot.
    pub(super) not_by_spark: Option<&'static str>,
    /// Of Postgres: whether its binary form is read, else it comes as text.
    pub(super) binary: bool,
    /// The servers that have it, by version.
    pub(super) of: fn(Kind, &str) -> bool,
}

/// Whether a type can be (part of) a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Key {
    Legal,
    /// The server has no index for it.
    RefusedByServer,
    /// The lake cannot tell rows apart by it.
    RefusedByCalve,
    /// It could be one, and another line of the list is the same in this.
    SameAs(&'static str),
}

/// A type that everybody has, whose binary form is read, and that may be a key.
pub(super) const fn ty(sql: &'static str, values: &'static [&'static str]) -> Listed {
    let of: fn(Kind, &str) -> bool = |_, _| true;
    Listed { sql, values, key: Key::Legal, equal: None, not_by_spark: None, binary: true, of }
}

/// A type of Postgres that comes as the server prints it.
pub(super) const fn text(sql: &'static str, values: &'static [&'static str]) -> Listed {
    Listed { binary: false, ..ty(sql, values) }
}

impl Listed {
    pub(super) const fn key(self, key: Key) -> Self {
        Self { key, ..self }
    }

    pub(super) const fn equal(self, pair: [&'static str; 2]) -> Self {
        Self { equal: Some(pair), ..self }
    }

    pub(super) const fn not_by_spark(self, reason: &'static str) -> Self {
        Self { not_by_spark: Some(reason), ..self }
    }

    pub(super) const fn of(self, of: fn(Kind, &str) -> bool) -> Self {
        Self { of, ..self }
    }

    /// The values with their type.
    pub(super) fn typed(&self, cast: bool) -> Type {
        let typed = |value: &&str| if cast { format!("cast({value} as {})", self.sql) } else { (*value).to_owned() };
        Type {
            sql: self.sql.to_owned(),
            values: self.values.iter().map(typed).collect(),
            key: self.key,
            equal: self.equal.map(|pair| pair.each_ref().map(typed)),
            by_spark: self.not_by_spark.is_none(),
        }
    }
}

/// A type that one server has.
#[derive(Clone, Debug)]
pub(super) struct Type {
    pub(super) sql: String,
    pub(super) values: Vec<String>,
    pub(super) key: Key,
    pub(super) equal: Option<[String; 2]>,
    pub(super) by_spark: bool,
}

/// The types in tables of so many columns. Those that Spark cannot show stand in tables of their own, since it refuses a table as a whole.
pub(super) fn in_tables(types: Vec<Type>, columns: usize) -> Vec<Vec<Type>> {
    let (shown, hidden): (Vec<Type>, Vec<Type>) = types.into_iter().partition(|ty| ty.by_spark);
    [shown, hidden].iter().flat_map(|types| types.chunks(columns).map(<[Type]>::to_vec)).collect()
}
