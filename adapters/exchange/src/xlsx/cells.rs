//! The rows of a sheet as a stream, so that its declared size is never allocated.

use std::io::Cursor;

use calamine::{DataRef, ExcelDateTime, XlsxCellReader, XlsxError};
use reqlore_domain::bounded_types::truncate_echo;

use crate::columns::MAX_COLUMNS;
use crate::columns::TableRow;

const DAY_SECONDS: f64 = 86_400.0;
/// The day after 9999-12-31.
const END_DAY: f64 = 2_958_466.0;
/// The memory of a cell without its text.
const CELL_BYTES: usize = 64;

/// The rows that have a text. An error begins with the row.
pub(crate) struct SheetRows<'a> {
    cells: XlsxCellReader<'a, Cursor<Vec<u8>>>,
    /// The first cell of the next row: its row, column and text.
    next: Option<(u64, usize, String)>,
    /// The columns of the table, so that a missing cell is an empty text.
    pub(crate) columns: usize,
    /// True after the last cell: the reader must not be called again.
    is_end: bool,
    /// The bytes that cells may still take.
    left: &'a mut u64,
}

impl<'a> SheetRows<'a> {
    pub(crate) fn new(cells: XlsxCellReader<'a, Cursor<Vec<u8>>>, left: &'a mut u64) -> Self {
        Self { cells, next: None, columns: 0, is_end: false, left }
    }

    /// The next cell that has a text.
    fn next_cell(&mut self) -> Result<Option<(u64, usize, String)>, String> {
        if let Some(cell) = self.next.take() {
            return Ok(Some(cell));
        }
        while !self.is_end
            && let Some(cell) = self.cells.next_cell().map_err(|error| error_text(&error))?
        {
            let (row, column) = cell.get_position();
            let (number, column) = (u64::from(row) + 1, column as usize);
            let text = cell_text(cell.get_value());
            if text.is_empty() {
                continue;
            }
            if column >= MAX_COLUMNS {
                let problem = format!("at most {MAX_COLUMNS} columns are allowed");
                return Err(format!(": row {number}: it has more columns; {problem}"));
            }
            self.take_bytes(number, text.len())?;
            return Ok(Some((number, column, text)));
        }
        self.is_end = true;
        Ok(None)
    }

    fn take_bytes(&mut self, number: u64, bytes: usize) -> Result<(), String> {
        let rest = self.left.checked_sub(bytes as u64);
        *self.left = rest.ok_or_else(|| {
            format!(": row {number}: all cells together take more than 100 MiB; split the file")
        })?;
        Ok(())
    }

    fn next_row(&mut self) -> Result<Option<TableRow>, String> {
        let mut row = TableRow::default();
        while let Some((number, column, text)) = self.next_cell()? {
            if row.cells.is_empty() {
                row.number = number;
            } else if number != row.number {
                self.next = Some((number, column, text));
                break;
            }
            if row.cells.len() <= column {
                row.cells.resize(column + 1, String::new());
            }
            row.cells[column] = text;
        }
        if row.cells.is_empty() {
            return Ok(None);
        }
        row.cells.resize(row.cells.len().max(self.columns), String::new());
        self.take_bytes(row.number, row.cells.len() * CELL_BYTES)?;
        Ok(Some(row))
    }
}

impl Iterator for SheetRows<'_> {
    type Item = Result<TableRow, String>;

    fn next(&mut self) -> Option<Self::Item> {
        self.next_row().transpose()
    }
}

/// A problem of the file, which may repeat a part of it.
pub(crate) fn error_text(error: &XlsxError) -> String {
    format!(": {}", truncate_echo(&error.to_string()))
}

/// The text of a cell as its reader sees it, with dates in ISO 8601.
fn cell_text(value: &DataRef<'_>) -> String {
    match value {
        DataRef::Empty => String::new(),
        DataRef::Int(number) => number.to_string(),
        DataRef::Float(number) => number_text(*number),
        DataRef::SharedString(text) => (*text).to_owned(),
        DataRef::String(text) | DataRef::DateTimeIso(text) | DataRef::DurationIso(text) => {
            text.clone()
        }
        DataRef::Bool(value) => value.to_string(),
        DataRef::Error(error) => error.to_string(),
        DataRef::DateTime(time) => time_text(time),
    }
}

/// A number with the 15 digits that Excel shows.
pub(super) fn number_text(number: f64) -> String {
    let shown = format!("{number:.14e}").parse().unwrap_or(number);
    // Without the sign of zero.
    (shown + 0.0).to_string()
}

fn time_text(time: &ExcelDateTime) -> String {
    let value = time.as_f64();
    if !(0.0..END_DAY).contains(&value) {
        return number_text(value);
    }
    // A date before the first day is a time of day.
    if time.is_duration() || value < 1.0 {
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "in range")]
        let mut seconds = (value * DAY_SECONDS).round() as u64;
        if !time.is_duration() {
            seconds = seconds.min(86_399);
        }
        return clock_text(seconds / 3_600, seconds / 60 % 60, seconds % 60);
    }
    let (year, month, day, hour, minute, second, _) = time.to_ymd_hms_milli();
    let date = format!("{year:04}-{month:02}-{day:02}");
    if (hour, minute, second) == (0, 0, 0) {
        return date;
    }
    format!("{date}T{}", clock_text(hour.into(), minute.into(), second.into()))
}

fn clock_text(hours: u64, minutes: u64, seconds: u64) -> String {
    format!("{hours:02}:{minutes:02}:{seconds:02}")
}
