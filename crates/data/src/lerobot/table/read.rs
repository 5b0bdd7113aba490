//! Reading columns of a table, a range of rows at a time.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

use parquet::column::reader::{ColumnReader, ColumnReaderImpl};
use parquet::data_type::{ByteArray, DataType};
use parquet::file::reader::FileReader;
use parquet::file::serialized_reader::SerializedFileReader;

use plaudit_pyfiles::plain_file;

use super::pages;
use crate::lerobot::error::{InFile, LeRobotError, Problem, Result, mismatch};

/// Numbers decoded at once.
const BATCH_VALUES: usize = 1 << 16;
/// Bytes of images held beside the decoded ones, if a file spreads one large page over many rows.
const BATCH_BYTES: u64 = 64 << 20;
/// Longest footer.
const FOOTER_BYTES: u64 = 256 << 20;

/// An open parquet file.
pub(crate) struct Table {
    path: PathBuf,
    file: File,
    len: u64,
    rows: u64,
    reader: SerializedFileReader<File>,
}

/// One leaf of the schema: which, how often it may nest, and how many values a row has.
#[derive(Clone, Copy)]
struct Leaf<'a> {
    name: &'a str,
    at: usize,
    width: usize,
    defined: i16,
    repeated: i16,
}

/// Values in the types parquet has.
enum Batch<'a> {
    Bool(&'a [bool]),
    I32(&'a [i32]),
    I64(&'a [i64]),
    F32(&'a [f32]),
    F64(&'a [f64]),
    Bytes(&'a [ByteArray]),
}

type Take<'a> = &'a mut dyn FnMut(Batch<'_>) -> Result<(), Problem>;
/// Where decoded values of one type go.
type Sink<'a, V> = &'a mut dyn FnMut(&[V]) -> Result<(), Problem>;

impl Table {
    /// Reads the footer, and nothing else.
    pub(crate) fn open(path: &Path) -> Result<Self> {
        let file = plain_file::open(path).in_file(path)?;
        let len = file.metadata().in_file(path)?.len();
        check_footer(&file, len).in_file(path)?;
        let again = file.try_clone().in_file(path)?;
        let reader = guarded(|| Ok(SerializedFileReader::new(again)?)).in_file(path)?;
        let rows = count_rows(&reader, len).in_file(path)?;
        Ok(Self { path: path.to_owned(), file, len, rows, reader })
    }

    /// The file.
    pub(crate) fn path(&self) -> &Path {
        &self.path
    }

    /// How many rows it has.
    pub(crate) fn rows(&self) -> u64 {
        self.rows
    }

    /// Whether there is such a top-level column.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.schema_columns().any(|(_, parts)| parts[0] == name)
    }

    /// A text beside the table.
    pub(crate) fn text(&self, key: &str) -> Option<&str> {
        let texts = self.reader.metadata().file_metadata().key_value_metadata()?;
        texts.iter().find(|text| text.key == key)?.value.as_deref()
    }

    /// Numbers, `width` per row, as floats.
    pub(crate) fn floats(&self, name: &str, rows: Range<u64>, width: usize) -> Result<Vec<f32>> {
        let mut all = Vec::new();
        self.scan(self.leaf(name, None, width)?, rows, &mut |batch| {
            match batch {
                Batch::Bool(values) => all.extend(values.iter().map(|&value| f32::from(u8::from(value)))),
                Batch::I32(values) => all.extend(values.iter().map(|&value| value as f32)),
                Batch::I64(values) => all.extend(values.iter().map(|&value| value as f32)),
                Batch::F32(values) => all.extend_from_slice(values),
                Batch::F64(values) => all.extend(values.iter().map(|&value| value as f32)),
                Batch::Bytes(_) => return Err(mismatch("numbers", "bytes or text")),
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// One whole number or boolean per row.
    pub(crate) fn integers(&self, name: &str, rows: Range<u64>) -> Result<Vec<i64>> {
        let mut all = Vec::new();
        self.scan(self.leaf(name, None, 1)?, rows, &mut |batch| {
            match batch {
                Batch::Bool(values) => all.extend(values.iter().map(|&value| i64::from(value))),
                Batch::I32(values) => all.extend(values.iter().map(|&value| i64::from(value))),
                Batch::I64(values) => all.extend_from_slice(values),
                Batch::F32(_) | Batch::F64(_) => return Err(mismatch("whole numbers", "fractions")),
                Batch::Bytes(_) => return Err(mismatch("whole numbers", "bytes or text")),
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// One text per row.
    pub(crate) fn texts(&self, name: &str, rows: Range<u64>) -> Result<Vec<String>> {
        let mut all = Vec::new();
        self.scan(self.leaf(name, None, 1)?, rows, &mut |batch| {
            let Batch::Bytes(values) = batch else { return Err(mismatch("text", "numbers")) };
            for value in values {
                let text = value.as_utf8().map_err(|_| mismatch("text", "bytes that are not UTF-8"))?;
                all.push(text.to_owned());
            }
            Ok(())
        })?;
        Ok(all)
    }

    /// Hands over the bytes of each row's `part` of a struct, some rows at a time.
    pub(crate) fn bytes(
        &self,
        name: &str,
        part: &str,
        rows: Range<u64>,
        take: Sink<'_, ByteArray>,
    ) -> Result<()> {
        self.scan(self.leaf(name, Some(part), 1)?, rows, &mut |batch| match batch {
            Batch::Bytes(values) => take(values),
            _ => Err(mismatch("bytes", "numbers")),
        })
    }

    fn schema_columns(&self) -> impl Iterator<Item = (usize, &[String])> {
        let columns = self.reader.metadata().file_metadata().schema_descr().columns();
        columns.iter().enumerate().map(|(at, column)| (at, column.path().parts()))
    }

    /// Finds a leaf by the name of its column, and of its part if the column is a struct.
    fn leaf<'a>(&self, name: &'a str, part: Option<&str>, width: usize) -> Result<Leaf<'a>> {
        let within = |parts: &[String]| parts[0] == name && part.is_none_or(|part| parts[1..] == [part]);
        let mut found = self.schema_columns().filter(|(_, parts)| within(parts));
        let fail = |problem| Err(LeRobotError::in_column(&self.path, name, problem));
        let Some((at, _)) = found.next() else {
            let hint = "it is declared or needed, so the file is of another dataset or damaged";
            return fail(Problem::Missing { what: "the column", hint });
        };
        if found.next().is_some() {
            return fail(mismatch("one value per place", "a struct of several"));
        }
        let column = self.reader.metadata().file_metadata().schema_descr().column(at);
        Ok(Leaf { name, at, width, defined: column.max_def_level(), repeated: column.max_rep_level() })
    }

    /// Decodes `rows` of a leaf and hands over the values, which are none of them null.
    fn scan(&self, leaf: Leaf<'_>, rows: Range<u64>, take: Take<'_>) -> Result<()> {
        guarded(|| self.scan_groups(leaf, rows, take)).in_column(&self.path, leaf.name)
    }

    fn scan_groups(&self, leaf: Leaf<'_>, rows: Range<u64>, take: Take<'_>) -> Result<(), Problem> {
        if rows.end > self.rows {
            return Err(mismatch(format!("{} rows", rows.end), self.rows.to_string()));
        }
        let mut first = 0;
        for (group, metadata) in self.reader.metadata().row_groups().iter().enumerate() {
            let next = first + metadata.num_rows() as u64;
            let (from, to) = (rows.start.max(first), rows.end.min(next));
            if from < to {
                let values = (next - first).saturating_mul(leaf.width as u64);
                let largest = pages::check(&self.file, self.len, metadata.column(leaf.at), values)?;
                let batch =
                    (BATCH_VALUES / leaf.width.max(1)).min((BATCH_BYTES / largest.max(1)) as usize).max(1);
                let span = Span { skip: (from - first) as usize, want: (to - from) as usize, batch };
                self.scan_group(group, leaf, span, take)?;
            }
            first = next;
        }
        Ok(())
    }

    fn scan_group(&self, group: usize, leaf: Leaf<'_>, span: Span, take: Take<'_>) -> Result<(), Problem> {
        match self.reader.get_row_group(group)?.get_column_reader(leaf.at)? {
            ColumnReader::BoolColumnReader(column) => span.read(column, leaf, &mut |v| take(Batch::Bool(v))),
            ColumnReader::Int32ColumnReader(column) => span.read(column, leaf, &mut |v| take(Batch::I32(v))),
            ColumnReader::Int64ColumnReader(column) => span.read(column, leaf, &mut |v| take(Batch::I64(v))),
            ColumnReader::FloatColumnReader(column) => span.read(column, leaf, &mut |v| take(Batch::F32(v))),
            ColumnReader::DoubleColumnReader(column) => span.read(column, leaf, &mut |v| take(Batch::F64(v))),
            ColumnReader::ByteArrayColumnReader(column) => {
                span.read(column, leaf, &mut |v| take(Batch::Bytes(v)))
            }
            ColumnReader::Int96ColumnReader(_) | ColumnReader::FixedLenByteArrayColumnReader(_) => {
                Err(mismatch("numbers, text or bytes", "another kind"))
            }
        }
    }
}

/// The decoder trusts lengths inside pages and panics where they lie; here that is one more damaged file.
fn guarded<T>(decode: impl FnOnce() -> Result<T, Problem>) -> Result<T, Problem> {
    catch_unwind(AssertUnwindSafe(decode)).unwrap_or_else(|_| {
        Err(mismatch("a whole parquet file", "bytes that its decoder cannot follow: it is damaged"))
    })
}

/// Rows of one row group, and how many to decode at once.
struct Span {
    skip: usize,
    want: usize,
    batch: usize,
}

impl Span {
    fn read<T: DataType>(
        &self,
        mut column: ColumnReaderImpl<T>,
        leaf: Leaf<'_>,
        take: Sink<'_, T::T>,
    ) -> Result<(), Problem> {
        let ends = || mismatch(format!("{} rows", self.skip + self.want), "fewer");
        if column.skip_records(self.skip)? != self.skip {
            return Err(ends());
        }
        let (mut values, mut defined, mut repeated) = (Vec::new(), Vec::new(), Vec::new());
        let mut left = self.want;
        while left > 0 {
            values.clear();
            defined.clear();
            repeated.clear();
            let (records, _, _) = column.read_records(
                left.min(self.batch),
                (leaf.defined > 0).then_some(&mut defined),
                (leaf.repeated > 0).then_some(&mut repeated),
                &mut values,
            )?;
            if records == 0 || records > left {
                return Err(ends());
            }
            check_rows(leaf, records, values.len(), &defined, &repeated)?;
            take(&values)?;
            left -= records;
        }
        Ok(())
    }
}

/// Nothing is null, and each row has its number of values.
fn check_rows(
    leaf: Leaf<'_>,
    records: usize,
    values: usize,
    defined: &[i16],
    repeated: &[i16],
) -> Result<(), Problem> {
    if defined.iter().any(|&level| level != leaf.defined) {
        return Err(mismatch("a value in every row", "nulls"));
    }
    let starts = |(at, &level): (usize, &i16)| (level == 0) == at.is_multiple_of(leaf.width.max(1));
    let even = leaf.repeated == 0 || repeated.iter().enumerate().all(starts);
    if !even || records.checked_mul(leaf.width) != Some(values) {
        return Err(mismatch(format!("{} values in each row", leaf.width), "another number of them"));
    }
    Ok(())
}

/// A footer's length comes from its last bytes; memory follows it.
fn check_footer(file: &File, len: u64) -> Result<(), Problem> {
    if len < 12 {
        return Err(mismatch("a parquet file", format!("{len} bytes")));
    }
    let (mut tail, mut file) = ([0; 8], file);
    file.seek(SeekFrom::Start(len - 8))?;
    file.read_exact(&mut tail)?;
    let footer = u64::from(u32::from_le_bytes([tail[0], tail[1], tail[2], tail[3]]));
    if &tail[4..] != b"PAR1" {
        return Err(mismatch(
            "`PAR1` at the end of the file",
            "something else: it is cut short or not parquet",
        ));
    }
    if footer > FOOTER_BYTES || footer > len - 8 {
        let hint = "the file is damaged";
        return Err(Problem::Limit {
            what: "bytes of footer",
            got: footer,
            limit: FOOTER_BYTES.min(len),
            hint,
        });
    }
    Ok(())
}

/// Rows by the row groups; a table has a column that counts, so rows cost bytes.
fn count_rows(reader: &SerializedFileReader<File>, len: u64) -> Result<u64, Problem> {
    let metadata = reader.metadata();
    let count = |sum: u64, rows: i64| u64::try_from(rows).ok().and_then(|rows| sum.checked_add(rows));
    let rows = metadata.row_groups().iter().try_fold(0, |sum, group| count(sum, group.num_rows()));
    let rows = rows.ok_or_else(|| mismatch("a number of rows", "one below zero or without end"))?;
    let limit = len.saturating_mul(8).saturating_add(4096);
    if rows > limit {
        let hint = "the file is too small for so many: it is damaged";
        return Err(Problem::Limit { what: "rows", got: rows, limit, hint });
    }
    Ok(rows)
}
