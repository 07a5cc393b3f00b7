//! Types of the lake by name, and those that a column may have there.

use std::fmt;
use std::str::FromStr;

use crate::ColumnType;

/// As Iceberg names them.
const NAMED: [(&str, ColumnType); 12] = [
    ("boolean", ColumnType::Boolean),
    ("int", ColumnType::Int),
    ("long", ColumnType::Long),
    ("float", ColumnType::Float),
    ("double", ColumnType::Double),
    ("string", ColumnType::String),
    ("binary", ColumnType::Binary),
    ("date", ColumnType::Date),
    ("time", ColumnType::Time),
    ("timestamp", ColumnType::Timestamp),
    ("timestamptz", ColumnType::TimestampTz),
    ("uuid", ColumnType::Uuid),
];

impl ColumnType {
    /// Names of the types that take no numbers.
    pub fn names() -> impl Iterator<Item = &'static str> {
        NAMED.iter().map(|(name, _)| *name)
    }
}

impl fmt::Display for ColumnType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Decimal { precision, scale } => write!(f, "decimal({precision},{scale})"),
            Self::List(element) => write!(f, "list<{element}>"),
            Self::Map => f.write_str("map<string,string>"),
            other => f.write_str(NAMED.iter().find(|(_, ty)| ty == other).map_or("?", |(name, _)| name)),
        }
    }
}

impl FromStr for ColumnType {
    type Err = String;

    /// `long`, `decimal(20,4)`. The error says what is wrong.
    fn from_str(text: &str) -> Result<Self, String> {
        if let Some((_, ty)) = NAMED.iter().find(|(name, _)| *name == text) {
            return Ok(ty.clone());
        }
        if text == "map<string,string>" {
            return Ok(Self::Map);
        }
        if let Some(element) = text.strip_prefix("list<").and_then(|rest| rest.strip_suffix('>')) {
            return match element.parse()? {
                Self::List(_) | Self::Map => {
                    Err(format!("'{text}' is no type of the lake: lists there are of single values"))
                }
                element => Ok(element.list()),
            };
        }
        let numbers = text.strip_prefix("decimal(").and_then(|rest| rest.strip_suffix(')'));
        let Some((precision, scale)) = numbers.map(|numbers| numbers.split_once(',').unwrap_or((numbers, "0"))) else {
            let names: Vec<&str> = Self::names().collect();
            return Err(format!(
                "'{text}' is no type of the lake; there are {}, decimal(p,s) and lists of these, as list<int>",
                names.join(", ")
            ));
        };
        match (precision.trim().parse(), scale.trim().parse()) {
            (Ok(precision @ 1..=38), Ok(scale)) if scale <= precision => Ok(Self::Decimal { precision, scale }),
            _ => Err(format!(
                "'{text}' is no decimal of the lake: it has 1 to 38 digits, and no more than these after the point"
            )),
        }
    }
}

/// Types that a column may have in the lake: the one that belongs to the source's, and others that its values can become.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TypeChoice {
    types: Vec<ColumnType>,
    any_decimal: bool,
}

impl TypeChoice {
    /// These, and no decimal beside them.
    pub fn of(types: impl IntoIterator<Item = ColumnType>) -> Self {
        let mut choice = Self { types: Vec::new(), any_decimal: false };
        for ty in types {
            if !choice.types.contains(&ty) {
                choice.types.push(ty);
            }
        }
        choice
    }

    /// And every decimal.
    #[must_use]
    pub fn with_decimals(self) -> Self {
        Self { any_decimal: true, ..self }
    }

    /// Whether the type is one of them.
    pub fn allows(&self, ty: &ColumnType) -> bool {
        self.types.contains(ty) || (self.any_decimal && matches!(ty, ColumnType::Decimal { .. }))
    }
}

impl fmt::Display for TypeChoice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut names: Vec<String> = self.types.iter().map(ToString::to_string).collect();
        if self.any_decimal {
            names.push("decimal(p,s)".to_owned());
        }
        f.write_str(&names.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_are_read_as_they_are_shown() {
        let decimal = |precision, scale| ColumnType::Decimal { precision, scale };
        for ty in NAMED.iter().map(|(_, ty)| ty.clone()).chain([
            decimal(1, 0),
            decimal(38, 38),
            decimal(9, 2).list(),
            ColumnType::Map,
        ]) {
            assert_eq!(ty.to_string().parse(), Ok(ty));
        }
        assert_eq!("decimal( 20 , 4 )".parse(), Ok(decimal(20, 4)));
        assert_eq!("decimal(9)".parse(), Ok(decimal(9, 0)));
        for text in [
            "",
            "bigint",
            "decimal",
            "decimal(39,0)",
            "decimal(0,0)",
            "decimal(3,4)",
            "decimal(3,-1)",
            "String",
            "list<>",
            "list<list<int>>",
            "list<int",
        ] {
            assert!(text.parse::<ColumnType>().is_err(), "{text}");
        }
    }

    #[test]
    fn a_choice_is_what_it_shows() {
        let choice = TypeChoice::of([ColumnType::Int, ColumnType::Long, ColumnType::Int]);
        assert_eq!(choice.to_string(), "int, long");
        assert!(choice.allows(&ColumnType::Long) && !choice.allows(&ColumnType::String));
        let decimal = ColumnType::Decimal { precision: 3, scale: 1 };
        assert!(!choice.allows(&decimal) && choice.clone().with_decimals().allows(&decimal));
        assert_eq!(choice.with_decimals().to_string(), "int, long, decimal(p,s)");
    }
}
