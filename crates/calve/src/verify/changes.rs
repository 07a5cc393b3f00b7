//! What the source committed between its read and the table's position, applied to the read.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use super::compare::{Buckets, Detail};
use super::rows::Rows;
use super::sides::Sides;
use crate::database::Witness;
use calve_core::{
    ChangeSink, Error, ErrorKind, Position, Result, RowBuffer, RowOp, SchemaChange, StopReason, TableIndex,
    TransactionPoint,
};

/// The source reached the position before, so its log tells soon.
const PATIENCE: Duration = Duration::from_mins(2);

/// Brings the source's side from the witness' position to `until`.
pub(super) async fn apply(
    witness: Witness,
    until: &Position,
    sides: &Sides,
    buckets: &Buckets,
    detail: &mut Detail,
) -> Result<()> {
    let mut changes = witness.changes().await?;
    let mut sink = Changes::new(until, sides, buckets, detail);
    let read = async {
        while !sink.is_full() {
            changes.poll(&mut sink).await?;
        }
        Ok(())
    };
    let result = tokio::time::timeout(PATIENCE, read).await.unwrap_or_else(|_| {
        let message = format!("the source's log was not read to {until} in time; try again");
        Err(Error::new(ErrorKind::Retry, message))
    });
    let failed = sink.failed.take();
    changes.close().await;
    failed.map_or(result, Err)
}

/// Hears the changes of one table.
pub(super) struct Changes<'a> {
    until: &'a Position,
    sides: &'a Sides,
    buckets: &'a Buckets,
    detail: &'a mut Detail,
    /// Of the present transaction.
    buffer: RowBuffer,
    reached: bool,
    pub(super) failed: Option<Error>,
}

impl<'a> Changes<'a> {
    pub(super) fn new(until: &'a Position, sides: &'a Sides, buckets: &'a Buckets, detail: &'a mut Detail) -> Self {
        let buffer = RowBuffer::new(Arc::clone(&sides.source));
        Self { until, sides, buckets, detail, buffer, reached: false, failed: None }
    }

    fn apply(&mut self) -> Result<()> {
        let buffer = std::mem::replace(&mut self.buffer, RowBuffer::new(Arc::clone(&self.sides.source)));
        let unchanged = buffer.unchanged().to_vec();
        let in_part: BTreeSet<usize> = unchanged.iter().map(|cell| cell.image).collect();
        let (ops, images, old_keys) = buffer.into_parts();
        let (images, chosen) = self.sides.all(images, &unchanged);
        let old_keys: Vec<_> = old_keys.into_iter().map(calve_core::ColumnBuffer::into_array).collect();
        let mut images = Rows::new(&self.sides.lake, &images)?;
        let old_keys = Rows::of_keys(&self.sides.source, &old_keys)?;
        let (mut image, mut old_key, mut key) = (0, 0, Vec::new());
        for op in ops {
            if op == RowOp::Truncate {
                self.detail.truncate_source();
            }
            if op.has_old_key() {
                old_keys.key(old_key, &mut key);
                old_key += 1;
                self.change(&key, None);
            }
            if op.has_image() {
                images.key(image, &mut key);
                let had = chosen.as_ref().map_or(Some(true), |chosen| chosen.has(image));
                if op == RowOp::Retire || had == Some(false) {
                    self.change(&key, None);
                } else if in_part.contains(&image) {
                    if self.buckets.contain(&key) {
                        self.detail.change_source_in_part(&key, had.is_some());
                    }
                } else {
                    let digest = images.digest(image);
                    self.change(&key, Some(digest));
                }
                image += 1;
            }
        }
        Ok(())
    }

    fn change(&mut self, key: &[u8], digest: Option<u128>) {
        if self.buckets.contain(key) {
            self.detail.change_source(key, digest);
        }
    }
}

impl ChangeSink for Changes<'_> {
    fn begin(&mut self, _: &TransactionPoint) {}

    fn wants(&self, table: TableIndex) -> bool {
        table.0 == 0 && !self.reached
    }

    fn rows(&mut self, table: TableIndex) -> Option<&mut RowBuffer> {
        (table.0 == 0 && !self.reached).then_some(&mut self.buffer)
    }

    /// What was read so far has the columns of before.
    fn schema(&mut self, _: TableIndex, _: SchemaChange) {
        self.buffer = RowBuffer::new(Arc::clone(&self.sides.source));
        let message = format!("table {} was altered while it was compared; compare it again", self.sides.source.table);
        self.failed.get_or_insert(Error::new(ErrorKind::Retry, message));
    }

    fn stop(&mut self, _: TableIndex, reason: StopReason) {
        self.buffer = RowBuffer::new(Arc::clone(&self.sides.source));
        let message = format!("table {} cannot be compared while it is written: {reason}", self.sides.source.table);
        self.failed.get_or_insert(Error::new(ErrorKind::Config, message));
    }

    fn commit(&mut self, end: Position, _: i64) {
        if self.until.covers(&end) {
            if let Err(error) = self.apply() {
                self.failed.get_or_insert(error);
            }
        } else {
            self.buffer = RowBuffer::new(Arc::clone(&self.sides.source));
        }
        self.reached |= end.covers(self.until);
    }

    fn abort(&mut self) {
        self.buffer = RowBuffer::new(Arc::clone(&self.sides.source));
    }

    fn idle(&mut self, end: Position) {
        self.reached |= end.covers(self.until);
    }

    fn is_full(&self) -> bool {
        self.reached || self.failed.is_some()
    }
}
