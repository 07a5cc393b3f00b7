//! Geometries: the server keeps the number of the spatial reference system before well-known binary; the lake takes EWKB,
//! which has it behind the type.
//!
//! SRID 0, which stands for none, is left out: the value is plain WKB then, as PostGIS writes it.

use calve_core::ColumnBuffer;

use super::value::{CellError, malformed};

const MALFORMED: CellError = malformed("a geometry");
/// Bit of the type that says that an SRID follows.
const HAS_SRID: u32 = 0x2000_0000;

/// Appends a geometry as EWKB.
pub(crate) fn push_geometry(bytes: &[u8], scratch: &mut Vec<u8>, out: &mut ColumnBuffer) -> Result<(), CellError> {
    let (srid, wkb) = bytes.split_first_chunk::<4>().ok_or(MALFORMED)?;
    let (head, rest) = wkb.split_first_chunk::<5>().ok_or(MALFORMED)?;
    let srid = u32::from_le_bytes(*srid);
    if srid == 0 {
        return Ok(out.push_bytes(wkb)?);
    }
    let [order, kind @ ..] = *head;
    let (kind, srid) = match order {
        0 => ((u32::from_be_bytes(kind) | HAS_SRID).to_be_bytes(), srid.to_be_bytes()),
        1 => ((u32::from_le_bytes(kind) | HAS_SRID).to_le_bytes(), srid.to_le_bytes()),
        _ => return Err(MALFORMED),
    };
    scratch.clear();
    scratch.push(order);
    scratch.extend_from_slice(&kind);
    scratch.extend_from_slice(&srid);
    scratch.extend_from_slice(rest);
    Ok(out.push_bytes(scratch)?)
}
