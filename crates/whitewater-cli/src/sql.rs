//! `whitewater sql`: statements in, whole results out.

use std::{collections::HashSet, fs, io, io::IsTerminal};

use arrow::{
    array::{Array, RecordBatch},
    datatypes::{DataType, SchemaRef},
};
use datafusion::{
    common::{cast::as_string_array, tree_node::TreeNodeRecursion},
    error::DataFusionError,
    logical_expr::{DdlStatement, LogicalPlan},
    prelude::{DataFrame, SessionContext},
    sql::parser::{DFParser, Statement},
};
use whitewater_datafusion::{SessionOptions, register_path, session};

use crate::{
    Error, Result,
    args::{Format, SqlOptions, TableArgument},
    output,
    progress::Progress,
};

/// Runs the statements and prints each result once it is complete.
pub async fn run(options: SqlOptions) -> Result<()> {
    let mut names = HashSet::new();
    for table in &options.tables {
        if !names.insert(&table.name) {
            return Err(Error::TableTwice(table.name.clone()));
        }
    }
    let statements = DFParser::parse_sql(&text(&options)?)?;
    if statements.is_empty() {
        return Err(Error::NoSql);
    }
    let ctx = session(SessionOptions {
        device: options.device.device.open()?,
        memory_budget: options.memory_budget,
        ..Default::default()
    });
    for table in &options.tables {
        register(&ctx, table).await?;
    }
    let count = statements.len();
    let mut printed = false;
    for (index, statement) in statements.into_iter().enumerate() {
        let spinner = Progress::spinner(match count {
            1 => "running".to_string(),
            _ => format!("running statement {} of {count}", index + 1),
        });
        let answer = answer(&ctx, statement, &options).await?;
        drop(spinner);
        let text = answer.text(&options)?;
        if text.is_empty() {
            continue;
        }
        if printed {
            output::write(b"\n").map_err(Error::Output)?;
        }
        output::write(&text).map_err(Error::Output)?;
        printed = true;
    }
    Ok(())
}

/// The SQL of the argument, the file or standard input.
fn text(options: &SqlOptions) -> Result<String> {
    if let Some(sql) = &options.sql {
        return Ok(sql.clone());
    }
    if let Some(path) = &options.file {
        return fs::read_to_string(path).map_err(|source| Error::File {
            path: path.clone(),
            source,
        });
    }
    if io::stdin().is_terminal() {
        return Err(Error::NoSql);
    }
    io::read_to_string(io::stdin()).map_err(Error::Input)
}

async fn register(ctx: &SessionContext, table: &TableArgument) -> Result<()> {
    // DataFusion passes over files without a byte, as if there were no file.
    if fs::metadata(&table.path).is_ok_and(|file| file.is_file() && file.len() == 0) {
        return Err(Error::TableEmpty {
            name: table.name.clone(),
            path: table.path.clone(),
        });
    }
    register_path(ctx, &table.name, &table.path)
        .await
        .map_err(|source| Error::Table {
            name: table.name.clone(),
            source,
        })
}

/// A complete result.
struct Answer {
    kind: Kind,
    schema: SchemaRef,
    batches: Vec<RecordBatch>,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Rows,
    Plan,
    /// A statement that has no rows, such as CREATE TABLE.
    Done,
}

async fn answer(
    ctx: &SessionContext,
    statement: Statement,
    options: &SqlOptions,
) -> Result<Answer> {
    let plan = ctx.state().statement_to_plan(statement).await?;
    let reading = tables_read(&plan, &options.tables);
    collect(ctx, plan, options)
        .await
        .map_err(|source| match reading {
            Ok(tables) if names_no_place(&source) && !tables.is_empty() => {
                Error::Reading { source, tables }
            }
            _ => source.into(),
        })
}

async fn collect(
    ctx: &SessionContext,
    plan: LogicalPlan,
    options: &SqlOptions,
) -> Result<Answer, DataFusionError> {
    let explained = matches!(plan, LogicalPlan::Explain(_) | LogicalPlan::Analyze(_));
    let kind = match &plan {
        LogicalPlan::Ddl(_) | LogicalPlan::Statement(_) => Kind::Done,
        _ if explained || options.explain || options.analyze => Kind::Plan,
        _ => Kind::Rows,
    };
    let frame = match kind {
        Kind::Plan if !explained => {
            DataFrame::new(ctx.state(), plan).explain(false, options.analyze)?
        }
        _ => ctx.execute_logical_plan(plan).await?,
    };
    let schema = frame.schema().inner().clone();
    let batches = frame.collect().await?;
    Ok(Answer {
        kind,
        schema: batches.first().map_or(schema, RecordBatch::schema),
        batches,
    })
}

/// The registered tables of a plan with their paths, for error messages.
fn tables_read(plan: &LogicalPlan, tables: &[TableArgument]) -> Result<String, DataFusionError> {
    let mut read: Vec<String> = Vec::new();
    let plan = match plan {
        LogicalPlan::Ddl(DdlStatement::CreateMemoryTable(create)) => &create.input,
        plan => plan,
    };
    plan.apply_with_subqueries(|node| {
        if let LogicalPlan::TableScan(scan) = node {
            let name = scan.table_name.table();
            let path = tables.iter().find(|t| t.name.eq_ignore_ascii_case(name));
            let line = path.map_or_else(
                || name.to_string(),
                |t| format!("{name}={}", t.path.display()),
            );
            if !read.contains(&line) {
                read.push(line);
            }
        }
        Ok(TreeNodeRecursion::Continue)
    })?;
    Ok(read.join(", "))
}

/// True for failures of reading, whose message does not tell which file it was.
fn names_no_place(error: &DataFusionError) -> bool {
    matches!(
        error.find_root(),
        DataFusionError::ParquetError(_)
            | DataFusionError::IoError(_)
            | DataFusionError::ObjectStore(_)
            | DataFusionError::ArrowError(_, _)
            | DataFusionError::External(_)
    )
}

impl Answer {
    fn text(&self, options: &SqlOptions) -> Result<Vec<u8>> {
        match self.kind {
            Kind::Done if self.schema.fields().is_empty() => Ok(Vec::new()),
            Kind::Plan if options.format == Format::Table => self.plan_text(),
            _ => output::render(options.format, self.schema.clone(), &self.batches),
        }
    }

    /// The plans as they are, without a border that would break their lines.
    fn plan_text(&self) -> Result<Vec<u8>> {
        let mut text = String::new();
        for batch in &self.batches {
            let utf8 = |column: usize| arrow::compute::cast(batch.column(column), &DataType::Utf8);
            let (kinds, plans) = (utf8(0)?, utf8(1)?);
            let (kinds, plans) = (as_string_array(&kinds)?, as_string_array(&plans)?);
            for row in 0..batch.num_rows() {
                if kinds.is_null(row) || plans.is_null(row) {
                    continue;
                }
                text += kinds.value(row);
                text += "\n";
                for line in plans.value(row).lines() {
                    text += &format!("  {line}\n");
                }
            }
        }
        Ok(text.into_bytes())
    }
}
