//! Joining tables without decoding them: row groups are copied as they are.

use std::fs::File;
use std::path::Path;
use std::sync::Arc;

use parquet::column::writer::ColumnCloseResult;
use parquet::file::metadata::{KeyValue, ParquetMetaData};
use parquet::file::properties::WriterProperties;
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;
use parquet::file::writer::SerializedFileWriter;
use parquet::schema::types::TypePtr;

use plaudit_pyfiles::plain_file;

use super::write::Text;
use crate::lerobot::error::{InFile, Problem, Result, mismatch};

/// A table that grows by whole files.
pub(crate) struct Splice {
    schema: TypePtr,
    file: SerializedFileWriter<File>,
}

impl Splice {
    /// A new file at `path`, for tables such as the one at `like`.
    pub(crate) fn create(path: &Path, like: &Path, text: &Text) -> Result<Self> {
        let schema = open(like)?.1.file_metadata().schema_descr().root_schema_ptr();
        let text = KeyValue::new(text.0.to_owned(), text.1.clone());
        let properties = WriterProperties::builder()
            .set_created_by(concat!("plaudit ", env!("CARGO_PKG_VERSION")).into())
            .set_key_value_metadata(Some(vec![text]))
            .build();
        let out = File::create_new(path).in_file(path)?;
        let file = SerializedFileWriter::new(out, schema.clone(), Arc::new(properties)).in_file(path)?;
        Ok(Self { schema, file })
    }

    /// Adds all row groups of a file of the same columns.
    pub(crate) fn append(&mut self, path: &Path) -> Result<()> {
        let (source, metadata) = open(path)?;
        if metadata.file_metadata().schema() != &*self.schema {
            return Err(mismatch("the columns of the first episode", "others")).in_file(path);
        }
        self.copy(&source, &metadata).in_file(path)
    }

    fn copy(&mut self, source: &File, metadata: &ParquetMetaData) -> Result<(), Problem> {
        for group in metadata.row_groups() {
            let mut copy = self.file.next_row_group()?;
            for column in group.columns() {
                let written = ColumnCloseResult {
                    bytes_written: column.compressed_size() as u64,
                    rows_written: group.num_rows() as u64,
                    metadata: column.clone(),
                    bloom_filter: None,
                    column_index: None,
                    offset_index: None,
                };
                copy.append_column(source, written)?;
            }
            copy.close()?;
        }
        Ok(())
    }

    /// Bytes so far.
    pub(crate) fn bytes(&self) -> usize {
        self.file.bytes_written()
    }

    /// Completes the file and waits until it is on disk.
    pub(crate) fn finish(self, path: &Path) -> Result<()> {
        self.file.into_inner().in_file(path)?.sync_all().in_file(path)
    }
}

fn open(path: &Path) -> Result<(File, ParquetMetaData)> {
    let file = plain_file::open(path).in_file(path)?;
    let reader = SerializedFileReader::new(file.try_clone().in_file(path)?).in_file(path)?;
    let metadata = reader.metadata().clone();
    Ok((file, metadata))
}
