//! Functions: signatures, local variables, and the state in which their bodies are written.

use naga::{Expression, Function, Handle, valid::FunctionInfo};

use crate::{Error, names::Owner, operation::Operands, uniformity::Flow, writer::Writer};

/// A function whose body is being written.
pub(crate) struct Body<'w, 'a> {
    pub(crate) writer: &'w Writer<'a>,
    pub(crate) owner: Owner,
    pub(crate) function: &'w Function,
    pub(crate) info: &'w FunctionInfo,
    /// The function's name, for errors.
    pub(crate) place: String,
    /// Which of its control flow is uniform in the subgroup.
    pub(crate) flow: &'w Flow,
    pub(crate) out: String,
    pub(crate) depth: usize,
    /// Labels of the enclosing loops; those whose continuing block must run have one.
    pub(crate) loops: Vec<Option<usize>>,
    pub(crate) labels: usize,
    /// The number of the next subgroup operation, as `Flow` counts them.
    pub(crate) operation: usize,
    /// The names of the values computed so far.
    pub(crate) values: Vec<Option<String>>,
    /// Values that are declared before they are computed, because a continuing block uses them.
    pub(crate) hoisted: Vec<bool>,
}

impl<'a> Writer<'a> {
    /// The declaration and body of one function.
    pub(crate) fn function(&self, handle: Handle<Function>) -> Result<String, Error> {
        let function = &self.module.functions[handle];
        let info = &self.info[handle];
        let owner = Owner::Function(handle);
        let mut parameters = Vec::new();
        for (index, argument) in function.arguments.iter().enumerate() {
            let ty = self.types.name(argument.ty)?;
            parameters.push(format!("{ty} {}", self.names.argument(owner, index)));
        }
        parameters.extend(self.global_parameters(function, info)?);
        let result = match &function.result {
            Some(result) => self.types.name(result.ty)?,
            None => "void".into(),
        };
        let name = self.names.function(handle);
        let signature = format!("FN {result} {name}({})", parameters.join(", "));
        let label = function.name.as_deref().unwrap_or_default();
        if let Some(body) = self.options.intrinsics.body(label) {
            let body = self.replacement(handle, label, body)?;
            return Ok(format!("{signature} {{ {body} }}\n"));
        }
        let flow = self.uniformity.function(handle);
        let mut body = Body::new(self, owner, function, info, label, flow);
        body.write()?;
        Ok(format!("{signature} {{\n{}}}\n", body.out))
    }

    /// A registered body with its placeholders filled in; other braces stay as they are.
    fn replacement(
        &self,
        handle: Handle<Function>,
        label: &str,
        body: &str,
    ) -> Result<String, Error> {
        let arguments = self.module.functions[handle].arguments.len();
        let mut text = String::new();
        let mut rest = body;
        while let Some((before, after)) = rest.split_once('{') {
            text.push_str(before);
            let end = after.find('}').unwrap_or(0);
            let inside = &after[..end];
            let name = match (inside.parse::<usize>(), inside.strip_prefix("global:")) {
                (Ok(index), _) if index < arguments => {
                    Some(self.names.argument(Owner::Function(handle), index))
                }
                (_, Some(wanted)) => self
                    .used_globals(&self.info[handle])
                    .into_iter()
                    .filter(|global| {
                        let label = self.module.global_variables[*global].name.as_deref();
                        self.options
                            .intrinsics
                            .is(label.unwrap_or_default(), wanted)
                    })
                    .map(|global| self.names.global(global))
                    .next(),
                (Ok(_), _) => None,
                // Braces of the body's own.
                (Err(_), None) => {
                    text.push('{');
                    rest = after;
                    continue;
                }
            };
            let Some(name) = name else {
                let placeholder = format!("{{{inside}}}");
                return Err(Error::Intrinsic {
                    function: label.into(),
                    placeholder,
                });
            };
            text.push_str(name);
            rest = &after[end + 1..];
        }
        text.push_str(rest);
        Ok(text)
    }
}

impl<'w, 'a> Body<'w, 'a> {
    pub(crate) fn new(
        writer: &'w Writer<'a>,
        owner: Owner,
        function: &'w Function,
        info: &'w FunctionInfo,
        place: &str,
        flow: &'w Flow,
    ) -> Self {
        Self {
            writer,
            owner,
            function,
            info,
            place: place.into(),
            flow,
            out: String::new(),
            depth: 1,
            loops: Vec::new(),
            labels: 0,
            operation: 0,
            values: vec![None; function.expressions.len()],
            hoisted: vec![false; function.expressions.len()],
        }
    }

    pub(crate) fn line(&mut self, text: impl AsRef<str>) {
        for _ in 0..self.depth {
            self.out.push_str("    ");
        }
        self.out.push_str(text.as_ref());
        self.out.push('\n');
    }

    /// Local variables, then the statements.
    pub(crate) fn write(&mut self) -> Result<(), Error> {
        for (handle, variable) in self.function.local_variables.iter() {
            let ty = self.writer.types.name(variable.ty)?;
            let name = self.writer.names.local(self.owner, handle);
            let text = match variable.init {
                Some(init) => format!("{ty} {name} = {};", self.text(init)?),
                None => format!("{ty} {name}{{}};"),
            };
            self.line(text);
        }
        self.block(&self.function.body)
    }

    /// Declares a value that is computed later, in an inner scope.
    pub(crate) fn hoist(&mut self, handle: Handle<Expression>) -> Result<(), Error> {
        let name = self.writer.names.value(self.function, handle);
        let ty = self.type_name(handle)?;
        self.line(format!("{ty} {name};"));
        self.hoisted[handle.index()] = true;
        self.values[handle.index()] = Some(name);
        Ok(())
    }

    /// Computes an expression now, under its name.
    pub(crate) fn bake(&mut self, handle: Handle<Expression>, text: String) {
        if self.hoisted[handle.index()]
            && let Some(name) = &self.values[handle.index()]
        {
            let line = format!("{name} = {text};");
            return self.line(line);
        }
        let name = self.writer.names.value(self.function, handle);
        self.line(format!("const auto {name} = {text};"));
        self.values[handle.index()] = Some(name);
    }
}
