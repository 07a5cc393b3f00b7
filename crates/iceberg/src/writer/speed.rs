//! Speed of the writer, as `calve_testkit::speed` has it: rows of a load into a file on disk, and a batch with its deletes.

use std::collections::HashMap;
use std::sync::Arc;

use calve_core::{ColumnBuffer, NativeType, Onto, RowOp};
use calve_testkit::speed::{self, tell};
use iceberg::TableCreation;
use iceberg::spec::TableMetadataBuilder;
use uuid::Uuid;

use super::partitions::PartitionedFiles;
use super::series::Content;
use crate::delta::TableLayout;
use crate::naming::FileNaming;
use crate::{Target, schema, storage};

#[test]
#[ignore = "tells a speed: integration/bench.sh micro"]
fn files() {
    let source = speed::schema(|_| NativeType::new(0, -1, "native"));
    for (what, codec) in
        [("rows written, zstd", "zstd"), ("rows written, snappy", "snappy"), ("rows written, none", "none")]
    {
        let dir = std::env::temp_dir().join(format!("calve-speed-{}", Uuid::new_v4().simple()));
        let creation = TableCreation::builder()
            .name("trips".to_owned())
            .location(format!("file://{}", dir.display()))
            .schema(schema::new_schema(&source).unwrap())
            .properties(HashMap::from([("write.parquet.compression-codec".to_owned(), codec.to_owned())]))
            .build();
        let metadata = TableMetadataBuilder::from_table_creation(creation).unwrap().build().unwrap().metadata;
        let target =
            Target { namespace: "n".into(), name: "t".into(), properties: HashMap::new(), layout: Arc::default() };
        let layout =
            Arc::new(TableLayout::new(&source, &metadata, None, Onto::Table, &target, storage::file_io()).unwrap());
        let naming = Arc::new(FileNaming::new("speed", Uuid::new_v4()).unwrap());
        tell(
            what,
            || speed::buffer(&source, RowOp::Insert),
            |buffer| {
                let mut series = PartitionedFiles::new(Arc::clone(&layout), Arc::clone(&naming), Content::Rows);
                let (ops, images, _) = buffer.into_parts();
                series.write(images.into_iter().map(ColumnBuffer::into_array).collect(), ops.len()).unwrap();
                let files = series.finish().unwrap();
                assert_eq!(files.iter().map(iceberg::spec::DataFile::record_count).sum::<u64>(), speed::ROWS as u64);
                files
            },
        );
        std::fs::remove_dir_all(dir).unwrap();
    }
}
