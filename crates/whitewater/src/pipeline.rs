//! A compiled pipeline over one batch: the generated module with the batch's buffers behind it.

use whitewater_gpu::{Buffer, Device, Launch, Shader};

use crate::{
    Batch, Error, Storage,
    expr::{
        ArithmeticError, Binding, ColumnLayout, Expr, GROUP, Generated, GeneratedValue, Part,
        Pipeline, compile,
    },
};

/// What the compiler may know of a batch's columns.
pub(crate) fn layouts(batch: &Batch) -> Vec<ColumnLayout> {
    batch
        .columns
        .iter()
        .map(|column| {
            let bits = match column.data {
                Storage::Narrow { bits, .. } => Some(bits),
                _ => None,
            };
            let packed = bits.is_some();
            ColumnLayout {
                nullable: column.validity.is_some(),
                narrow: packed,
                packed,
                bits,
            }
        })
        .collect()
}

/// What the value of `expr` over `batch` is on the device.
pub(crate) fn describe(expr: &Expr, batch: &Batch) -> Result<GeneratedValue, Error> {
    let spec = Pipeline {
        predicate: None,
        values: vec![("value".into(), expr.clone())],
        narrow: true,
        paired: None,
    };
    let generated = compile(&spec, &batch.schema, &layouts(batch))?;
    generated
        .values
        .into_iter()
        .next()
        .ok_or_else(|| Error::unsupported("an expression without a value"))
}

/// The buffers that `predicate` alone reads.
pub(crate) fn bindings(predicate: Option<&Expr>, batch: &Batch) -> Result<Vec<Binding>, Error> {
    let spec = Pipeline {
        predicate: predicate.cloned(),
        ..Pipeline::default()
    };
    Ok(compile(&spec, &batch.schema, &layouts(batch))?.bindings)
}

/// A generated module and the buffers that it binds.
pub(crate) struct Compiled {
    pub(crate) generated: Generated,
    buffers: Vec<Buffer>,
    /// The word in which kernels raise arithmetic errors.
    errors: Buffer,
}

impl Compiled {
    /// Compiles `predicate` and `values` for `batch`.
    pub(crate) fn new(
        device: &Device,
        batch: &Batch,
        predicate: Option<&Expr>,
        values: Vec<(String, Expr)>,
    ) -> Result<Self, Error> {
        let spec = Pipeline {
            predicate: predicate.cloned(),
            values,
            narrow: true,
            paired: None,
        };
        Self::of(device, batch, &spec)
    }

    /// Compiles `spec` for `batch`.
    pub(crate) fn of(device: &Device, batch: &Batch, spec: &Pipeline) -> Result<Self, Error> {
        let generated = compile(spec, &batch.schema, &layouts(batch))?;
        let buffers = generated
            .bindings
            .iter()
            .map(|binding| buffer(batch, *binding))
            .collect::<Result<Vec<_>, Error>>()?;
        Ok(Self {
            generated,
            buffers,
            errors: device.alloc_filled(4, 0)?,
        })
    }

    /// `shader` with the generated module.
    pub(crate) fn specialise(&self, shader: Shader) -> Shader {
        shader.generated("package::generated", self.generated.text.clone())
    }

    /// Binds the batch's buffers.
    pub(crate) fn bind<'a>(&'a self, launch: Launch<'a>) -> Launch<'a> {
        launch
            .bind(0, 0, &self.errors)
            .bind_group(GROUP, &self.buffers)
    }

    /// The batch's buffers, by group and binding.
    pub(crate) fn bound(&self) -> Vec<(u32, u32, &Buffer)> {
        let buffers = self.buffers.iter().enumerate();
        let columns = buffers.map(|(binding, buffer)| (GROUP, binding as u32, buffer));
        [(0, 0, &self.errors)].into_iter().chain(columns).collect()
    }

    /// Bytes of the buffers that every row's evaluation reads.
    pub(crate) fn bytes(&self) -> u64 {
        self.buffers.iter().map(Buffer::len).sum()
    }

    /// The error that a kernel raised, if any. Waits for the device where one could be raised.
    pub(crate) fn check(&self) -> Result<(), Error> {
        if !self.generated.raises {
            return Ok(());
        }
        let word = self.errors.download_as::<u32>()?[0];
        ArithmeticError::from_word(word).map_or(Ok(()), |error| Err(Error::Arithmetic(error)))
    }
}

fn buffer(batch: &Batch, binding: Binding) -> Result<Buffer, Error> {
    let column = &batch.columns[binding.column];
    let found = match (binding.part, &column.data) {
        (Part::Validity, _) => column.validity.as_ref(),
        (Part::Data, Storage::Fixed(b) | Storage::Narrow { values: b, .. } | Storage::Bits(b)) => {
            Some(b)
        }
        (Part::Offsets, Storage::Bytes { offsets, .. }) => Some(offsets),
        (Part::Bytes, Storage::Bytes { bytes, .. }) => Some(bytes),
        _ => None,
    };
    found.cloned().ok_or_else(|| {
        Error::unsupported(format!(
            "the {:?} of a column of type {}",
            binding.part, column.data_type
        ))
    })
}
