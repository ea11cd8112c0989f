//! Functions: signatures, local variables, and the state in which their bodies are written.

use naga::{Expression, Function, Handle, TypeInner, valid::FunctionInfo};

use crate::{
    Error,
    intrinsics::matches,
    uniformity::Flow,
    writer::{Writer, sanitise},
};

/// A function whose body is being written.
pub(crate) struct Body<'w, 'a> {
    pub(crate) writer: &'w Writer<'a>,
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
    pub(crate) baked: Vec<bool>,
}

impl<'a> Writer<'a> {
    pub(crate) fn function_name(&self, handle: Handle<Function>) -> String {
        let label = self.module.functions[handle]
            .name
            .as_deref()
            .unwrap_or("function");
        format!("{}_f{}", sanitise(label), handle.index())
    }

    /// The declaration and body of one function.
    pub(crate) fn function(&self, handle: Handle<Function>) -> Result<String, Error> {
        let function = &self.module.functions[handle];
        let info = &self.info[handle];
        let name = self.function_name(handle);
        let mut parameters = Vec::new();
        for (index, argument) in function.arguments.iter().enumerate() {
            let ty = self.types.name(argument.ty)?;
            parameters.push(format!("{ty} {}", argument_name(function, index)));
        }
        parameters.extend(self.global_parameters(function, info)?);
        let result = match &function.result {
            Some(result) => self.types.name(result.ty)?,
            None => "void".into(),
        };
        let signature = format!("FN {result} {name}({})", parameters.join(", "));
        let label = function.name.as_deref().unwrap_or_default();
        if let Some(body) = self.options.intrinsics.body(label) {
            let body = self.replacement(function, info, body);
            return Ok(format!("{signature} {{ {body} }}\n"));
        }
        let mut body = Body::new(
            self,
            function,
            info,
            label,
            self.uniformity.function(handle),
        );
        body.write()?;
        Ok(format!("{signature} {{\n{}}}\n", body.out))
    }

    /// A registered body with its placeholders filled in.
    fn replacement(&self, function: &Function, info: &FunctionInfo, body: &str) -> String {
        let mut text = body.to_string();
        for index in 0..function.arguments.len() {
            text = text.replace(&format!("{{{index}}}"), &argument_name(function, index));
        }
        for handle in self.used_globals(info) {
            let label = self.global_label(handle);
            let mut rest = String::new();
            let mut left = text.as_str();
            while let Some(at) = left.find("{global:") {
                let (before, after) = left.split_at(at);
                let Some(end) = after.find('}') else { break };
                let wanted = &after["{global:".len()..end];
                rest.push_str(before);
                match matches(&label, wanted) {
                    true => rest.push_str(&self.global_name(handle)),
                    false => rest.push_str(&after[..=end]),
                }
                left = &after[end + 1..];
            }
            rest.push_str(left);
            text = rest;
        }
        text
    }
}

/// The C++ name of a function's argument.
pub(crate) fn argument_name(function: &Function, index: usize) -> String {
    let label = function.arguments[index].name.as_deref().unwrap_or("a");
    format!("{}_a{index}", sanitise(label))
}

impl<'w, 'a> Body<'w, 'a> {
    pub(crate) fn new(
        writer: &'w Writer<'a>,
        function: &'w Function,
        info: &'w FunctionInfo,
        place: &str,
        flow: &'w Flow,
    ) -> Self {
        Self {
            writer,
            function,
            info,
            place: place.into(),
            flow,
            out: String::new(),
            depth: 1,
            loops: Vec::new(),
            labels: 0,
            operation: 0,
            baked: vec![false; function.expressions.len()],
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
            let name = self.local_name(handle);
            let text = match variable.init {
                Some(init) => format!("{ty} {name} = {};", self.text(init)?),
                None => format!("{ty} {name}{{}};"),
            };
            self.line(text);
        }
        self.block(&self.function.body)
    }

    pub(crate) fn local_name(&self, handle: Handle<naga::LocalVariable>) -> String {
        let variable = &self.function.local_variables[handle];
        let label = variable.name.as_deref().unwrap_or("v");
        format!("{}_l{}", sanitise(label), handle.index())
    }

    /// The name of a computed value.
    pub(crate) fn value_name(&self, handle: Handle<Expression>) -> String {
        match self.function.named_expressions.get(&handle) {
            Some(label) => format!("{}_e{}", sanitise(label), handle.index()),
            None => format!("e{}", handle.index()),
        }
    }

    pub(crate) fn inner(&self, handle: Handle<Expression>) -> &TypeInner {
        self.info[handle].ty.inner_with(&self.writer.module.types)
    }

    /// What a pointer points to, or the type itself of anything else.
    pub(crate) fn pointee(&self, handle: Handle<Expression>) -> TypeInner {
        match *self.inner(handle) {
            TypeInner::Pointer { base, .. } => self.writer.types.inner(base).clone(),
            TypeInner::ValuePointer {
                size: Some(size),
                scalar,
                ..
            } => TypeInner::Vector { size, scalar },
            TypeInner::ValuePointer {
                size: None, scalar, ..
            } => TypeInner::Scalar(scalar),
            ref other => other.clone(),
        }
    }

    pub(crate) fn is_pointer(&self, handle: Handle<Expression>) -> bool {
        matches!(
            self.inner(handle),
            TypeInner::Pointer { .. } | TypeInner::ValuePointer { .. }
        )
    }

    /// The C++ type of an expression's value.
    pub(crate) fn type_name(&self, handle: Handle<Expression>) -> Result<String, Error> {
        match self.info[handle].ty {
            naga::proc::TypeResolution::Handle(ty) => self.writer.types.name(ty),
            naga::proc::TypeResolution::Value(ref inner) => self.writer.types.inner_name(inner),
        }
    }

    /// Computes an expression now, under its name.
    pub(crate) fn bake(&mut self, handle: Handle<Expression>, text: String) {
        let name = self.value_name(handle);
        self.line(format!("const auto {name} = {text};"));
        self.baked[handle.index()] = true;
    }
}
