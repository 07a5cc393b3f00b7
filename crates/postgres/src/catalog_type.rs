//! What the catalog says of a column's type: what lies under its domains, what the elements of an array are, and which extension
//! the type belongs to.
//!
//! Types of extensions have other numbers in every database, so they are told by their name and their extension.

use calve_core::{ColumnType, NativeElement, NativeType};
use tokio_postgres::Row;

use crate::types::{built_in_type, single_type};

/// Columns of a SELECT list that [`CatalogType::from_row`] reads, of the attribute `a` and with [`type_joins`] in its FROM.
macro_rules! type_columns {
    () => {
        "a.atttypid, a.atttypmod, pg_catalog.format_type(a.atttypid, a.atttypmod), \
         COALESCE(base.oid, a.atttypid), COALESCE(base.modifier, a.atttypmod), \
         item.oid, item.modifier, item.delimiter::text, owner.extension, owner.type"
    };
}

/// The type under any domains is looked up, with the modifier that the innermost domain gives it (`getBaseTypeAndTypmod`); that
/// of an array is its elements', unless these are of a domain.
macro_rules! type_joins {
    () => {
        "LEFT JOIN LATERAL ( \
             WITH RECURSIVE step (oid, modifier, depth) AS ( \
                 SELECT a.atttypid, a.atttypmod, 0 \
                  UNION ALL \
                 SELECT t.typbasetype, t.typtypmod, step.depth + 1 \
                   FROM step JOIN pg_catalog.pg_type t ON t.oid = step.oid AND t.typtype = 'd') \
             SELECT oid, modifier FROM step ORDER BY depth DESC LIMIT 1) base ON true \
         LEFT JOIN LATERAL ( \
             WITH RECURSIVE step (oid, modifier, delimiter, depth) AS ( \
                 SELECT element.oid, base.modifier, element.typdelim, 0 \
                   FROM pg_catalog.pg_type list JOIN pg_catalog.pg_type element ON element.oid = list.typelem \
                  WHERE list.oid = base.oid AND (element.typarray = list.oid OR list.oid IN (22, 30)) \
                  UNION ALL \
                 SELECT t.typbasetype, t.typtypmod, step.delimiter, step.depth + 1 \
                   FROM step JOIN pg_catalog.pg_type t ON t.oid = step.oid AND t.typtype = 'd') \
             SELECT oid, modifier, delimiter FROM step ORDER BY depth DESC LIMIT 1) item ON true \
         LEFT JOIN LATERAL ( \
             SELECT e.extname::text AS extension, t.typname::text AS type \
               FROM pg_catalog.pg_depend d \
               JOIN pg_catalog.pg_extension e ON d.refclassid = 'pg_catalog.pg_extension'::pg_catalog.regclass AND e.oid = d.refobjid \
               JOIN pg_catalog.pg_type t ON t.oid = d.objid \
              WHERE d.classid = 'pg_catalog.pg_type'::pg_catalog.regclass AND d.objid = base.oid AND d.deptype = 'e') owner ON true"
    };
}

pub(crate) use {type_columns, type_joins};

/// `int2vector` and `oidvector`, arrays whose text is their numbers between blanks.
const VECTORS: [u32; 2] = [22, 30];

/// A column's type.
pub(crate) struct CatalogType {
    native: NativeType,
    base: u32,
    modifier: i32,
    element: Option<(NativeElement, i32)>,
    /// The extension that the base type is of, and its name there.
    extension: Option<(String, String)>,
}

impl CatalogType {
    /// From the columns of a row that begin at `first`.
    pub(crate) fn from_row(row: &Row, first: usize) -> Result<Self, tokio_postgres::Error> {
        let native =
            NativeType::new(row.try_get(first)?, row.try_get(first + 1)?, row.try_get::<_, String>(first + 2)?);
        let base = row.try_get(first + 3)?;
        let element = match row.try_get::<_, Option<u32>>(first + 5)? {
            None => None,
            Some(id) => {
                let delimiter = row.try_get::<_, Option<&str>>(first + 7)?.and_then(|text| text.chars().next());
                let delimiter = if VECTORS.contains(&base) { ' ' } else { delimiter.unwrap_or(',') };
                Some((NativeElement { id, delimiter }, row.try_get::<_, Option<i32>>(first + 6)?.unwrap_or(-1)))
            }
        };
        let extension = row.try_get::<_, Option<String>>(first + 8)?.zip(row.try_get(first + 9)?);
        Ok(Self { native, base, modifier: row.try_get(first + 4)?, element, extension })
    }

    /// The type in the lake, and the type at the source.
    pub(crate) fn into_types(self) -> (ColumnType, NativeType) {
        let mut native = self.native;
        if let Some((element, modifier)) = self.element {
            native.element = Some(element);
            return (single_type(element.id, modifier).list(), native);
        }
        let extension = self.extension.as_ref().map(|(extension, name)| (extension.as_str(), name.as_str()));
        let ty = match extension {
            Some(("hstore", "hstore")) => ColumnType::Map,
            Some(("vector", "vector")) => ColumnType::Float.list(),
            Some(("postgis", "geometry" | "geography")) => ColumnType::Binary,
            _ => return (built_in_type(self.base, self.modifier), native),
        };
        native.attributes.extend(extension.map(|(extension, _)| extension.to_owned()));
        (ty, native)
    }
}
