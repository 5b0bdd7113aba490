//! Writing a table: one row group, one page per megabyte.

use std::io::Write;
use std::sync::Arc;

use parquet::basic::Compression;
use parquet::data_type::{BoolType, ByteArrayType, DataType, DoubleType, FloatType, Int32Type, Int64Type};
use parquet::errors::Result;
use parquet::file::metadata::KeyValue;
use parquet::file::properties::{EnabledStatistics, WriterProperties, WriterPropertiesPtr};
use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
use parquet::schema::parser::parse_message_type;
use parquet::schema::types::ColumnPath;

use super::column::{Column, Values};

/// A text beside the table, by key.
pub(crate) type Text = (&'static str, String);

/// Writes all columns, which have `rows` rows.
pub(crate) fn write<W: Write + Send>(out: W, rows: usize, columns: &[Column], texts: &[Text]) -> Result<W> {
    let lines: Vec<String> = columns.iter().map(Column::schema).collect();
    let schema = parse_message_type(&format!("message schema {{ {} }}", lines.join(" ")))?;
    let mut file = SerializedFileWriter::new(out, Arc::new(schema), properties(columns, texts))?;
    let mut group = file.next_row_group()?;
    for column in columns {
        write_column(&mut group, rows, column)?;
    }
    group.close()?;
    file.into_inner()
}

/// Snappy as lerobot has it; images, which are compressed already, as they are.
fn properties(columns: &[Column], texts: &[Text]) -> WriterPropertiesPtr {
    let texts = texts.iter().map(|(key, text)| KeyValue::new((*key).to_owned(), text.clone())).collect();
    let mut builder = WriterProperties::builder()
        .set_created_by(concat!("plaudit ", env!("CARGO_PKG_VERSION")).into())
        .set_compression(Compression::SNAPPY)
        .set_dictionary_enabled(false)
        .set_statistics_enabled(EnabledStatistics::Chunk)
        .set_offset_index_disabled(true)
        // Pages are closed between batches only: with images, a batch must not be large.
        .set_write_batch_size(16)
        .set_key_value_metadata(Some(texts));
    for column in columns {
        if let Values::Images(..) = column.values {
            let path = ColumnPath::new(vec![column.name.clone(), "bytes".into()]);
            builder = builder
                .set_column_compression(path.clone(), Compression::UNCOMPRESSED)
                .set_column_statistics_enabled(path, EnabledStatistics::None);
        }
    }
    Arc::new(builder.build())
}

type Group<'a, W> = SerializedRowGroupWriter<'a, W>;

fn write_column<W: Write + Send>(group: &mut Group<'_, W>, rows: usize, column: &Column) -> Result<()> {
    let levels = Levels::new(rows, column);
    match &column.values {
        Values::Bool(values) => write_leaf::<BoolType, W>(group, values, &levels),
        Values::U8(values) => write_leaf::<Int32Type, W>(group, values, &levels),
        Values::I64(values) => write_leaf::<Int64Type, W>(group, values, &levels),
        Values::F32(values) => write_leaf::<FloatType, W>(group, values, &levels),
        Values::F64(values) => write_leaf::<DoubleType, W>(group, values, &levels),
        Values::Text(values) => write_leaf::<ByteArrayType, W>(group, values, &levels),
        Values::Images(images, names) => {
            write_leaf::<ByteArrayType, W>(group, images, &levels)?;
            write_leaf::<ByteArrayType, W>(group, names, &levels)
        }
    }
}

/// Parquet's way of saying where rows begin and that nothing is null.
struct Levels {
    defined: Vec<i16>,
    repeated: Vec<i16>,
}

impl Levels {
    fn new(rows: usize, column: &Column) -> Self {
        let values = column.values.len();
        let per_row = values.checked_div(rows).unwrap_or(0).max(1);
        let nested = if matches!(column.values, Values::Images(..)) { 2 } else { 2 * column.depth + 1 };
        let repeated = match column.depth {
            0 => Vec::new(),
            // Inner lists have one value each, so only the outermost goes on.
            _ => (0..values).map(|at| i16::from(at % per_row != 0)).collect(),
        };
        Self { defined: vec![nested as i16; values], repeated }
    }
}

fn write_leaf<T: DataType, W: Write + Send>(
    group: &mut Group<'_, W>,
    values: &[T::T],
    levels: &Levels,
) -> Result<()> {
    let Some(mut column) = group.next_column()? else { return Ok(()) };
    let repeated = (!levels.repeated.is_empty()).then_some(&levels.repeated[..]);
    column.typed::<T>().write_batch(values, Some(&levels.defined), repeated)?;
    column.close()
}
