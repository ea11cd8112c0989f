//! Which subgroup operations stand in control flow that is the same for a whole subgroup.
//!
//! These may name all lanes as participants, which also makes the lanes wait for each other; the
//! others ask which lanes are there. The analysis is conservative: a value counts as uniform if it is
//! made of constants, uniforms, read-only buffers and workgroup memory at uniform indices, built-in
//! values of the workgroup or subgroup, results of reductions, votes and broadcasts, and locals that
//! only ever hold such values.

use naga::{
    AddressSpace, Binding, Block, BuiltIn, CollectiveOperation, Expression, Function, GatherMode,
    Handle, Module, Statement, StorageAccess, SubgroupOperation, Type, TypeInner,
};

use crate::walk;

/// The findings for a module.
pub(crate) struct Uniformity {
    functions: Vec<Flow>,
    entries: Vec<Flow>,
}

/// The findings for one function: its subgroup operations in the order of its statements.
#[derive(Clone, Default)]
pub(crate) struct Flow {
    operations: Vec<bool>,
    whole: bool,
}

impl Flow {
    /// Whether every subgroup that runs the function has all its lanes.
    pub(crate) fn whole_subgroups(&self) -> bool {
        self.whole
    }

    pub(crate) fn is_uniform(&self, operation: usize) -> bool {
        self.operations.get(operation).copied().unwrap_or(false)
    }
}

/// How a function is called: in uniform control flow only, by whole subgroups only, and with which
/// uniform arguments.
#[derive(Clone)]
struct Calls {
    uniform: bool,
    whole: bool,
    arguments: Vec<bool>,
}

impl Uniformity {
    /// The findings for the entry points at `selected` and all that they call.
    pub(crate) fn of(module: &Module, selected: &[usize]) -> Self {
        let mut calls: Vec<Calls> = module
            .functions
            .iter()
            .map(|(_, function)| Calls {
                uniform: true,
                whole: true,
                arguments: vec![true; function.arguments.len()],
            })
            .collect();
        let analyse = |calls: &mut Vec<Calls>, function: &Function, own: Calls| {
            let mut walk = Walk::new(module, function, own);
            let flow = walk.run();
            for (callee, made) in walk.calls {
                let known = &mut calls[callee.index()];
                known.uniform &= made.uniform;
                known.whole &= made.whole;
                for (known, made) in known.arguments.iter_mut().zip(made.arguments) {
                    *known &= made;
                }
            }
            flow
        };
        let mut entries = vec![Flow::default(); module.entry_points.len()];
        for &index in selected {
            let entry = &module.entry_points[index];
            let arguments = entry.function.arguments.iter().map(|argument| {
                matches!(
                    argument.binding,
                    Some(Binding::BuiltIn(
                        BuiltIn::WorkGroupId
                            | BuiltIn::WorkGroupSize
                            | BuiltIn::NumWorkGroups
                            | BuiltIn::NumSubgroups
                            | BuiltIn::SubgroupId
                            | BuiltIn::SubgroupSize
                    ))
                )
            });
            let own = Calls {
                uniform: true,
                whole: entry.workgroup_size.iter().product::<u32>() % 32 == 0,
                arguments: arguments.collect(),
            };
            entries[index] = analyse(&mut calls, &entry.function, own);
        }
        // Callees come before callers in a valid module: walk from the callers down.
        let mut functions = vec![Flow::default(); module.functions.len()];
        let mut handles: Vec<_> = module.functions.iter().map(|(handle, _)| handle).collect();
        let reached = reached(module, selected);
        handles.retain(|handle| reached[handle.index()]);
        for handle in handles.into_iter().rev() {
            let own = calls[handle.index()].clone();
            functions[handle.index()] = analyse(&mut calls, &module.functions[handle], own);
        }
        Self { functions, entries }
    }

    pub(crate) fn function(&self, handle: Handle<Function>) -> &Flow {
        &self.functions[handle.index()]
    }

    pub(crate) fn entry(&self, index: usize) -> &Flow {
        &self.entries[index]
    }
}

/// By function: whether an entry point at `selected` calls it, directly or not.
fn reached(module: &Module, selected: &[usize]) -> Vec<bool> {
    let mut reached = vec![false; module.functions.len()];
    let mut pending: Vec<&Function> = selected
        .iter()
        .map(|index| &module.entry_points[*index].function)
        .collect();
    while let Some(function) = pending.pop() {
        walk::calls(&function.body, &mut |callee| {
            if !std::mem::replace(&mut reached[callee.index()], true) {
                pending.push(&module.functions[callee]);
            }
        });
    }
    reached
}

fn holds_atomic(module: &Module, ty: Handle<Type>) -> bool {
    match module.types[ty].inner {
        TypeInner::Atomic(_) => true,
        TypeInner::Array { base, .. } => holds_atomic(module, base),
        TypeInner::Struct { ref members, .. } => {
            members.iter().any(|member| holds_atomic(module, member.ty))
        }
        _ => false,
    }
}

/// What `break` leaves: a loop or a switch, and whether lanes have left it apart.
struct Frame {
    is_loop: bool,
    diverged: bool,
}

struct Walk<'a> {
    module: &'a Module,
    function: &'a Function,
    own: Calls,
    /// Locals that may differ between lanes.
    varying: Vec<bool>,
    /// Results of statements that may differ between lanes; like `varying`, this only grows.
    varying_results: Vec<bool>,
    returned: bool,
    frames: Vec<Frame>,
    operations: Vec<bool>,
    next: usize,
    calls: Vec<(Handle<Function>, Calls)>,
    changed: bool,
}

impl<'a> Walk<'a> {
    fn new(module: &'a Module, function: &'a Function, own: Calls) -> Self {
        Self {
            module,
            function,
            own,
            varying: vec![false; function.local_variables.len()],
            varying_results: vec![false; function.expressions.len()],
            returned: false,
            frames: Vec::new(),
            operations: Vec::new(),
            next: 0,
            calls: Vec::new(),
            changed: true,
        }
    }

    /// Walks until no local changes its kind any more.
    fn run(&mut self) -> Flow {
        while std::mem::take(&mut self.changed) {
            self.returned = false;
            self.operations.clear();
            self.calls.clear();
            self.next = 0;
            self.block(&self.function.body, self.own.uniform);
        }
        Flow {
            operations: std::mem::take(&mut self.operations),
            whole: self.own.whole,
        }
    }

    fn here(&self, uniform: bool) -> bool {
        uniform && !self.returned && !self.frames.iter().any(|frame| frame.diverged)
    }

    fn value(&self, handle: Handle<Expression>) -> bool {
        let all = |handles: &[Handle<Expression>]| handles.iter().all(|h| self.value(*h));
        match self.function.expressions[handle] {
            Expression::Literal(_)
            | Expression::Constant(_)
            | Expression::Override(_)
            | Expression::ZeroValue(_)
            | Expression::GlobalVariable(_)
            | Expression::LocalVariable(_)
            | Expression::ArrayLength(_)
            | Expression::WorkGroupUniformLoadResult { .. } => true,
            Expression::FunctionArgument(index) => self
                .own
                .arguments
                .get(index as usize)
                .copied()
                .unwrap_or(false),
            Expression::Compose { ref components, .. } => all(components),
            Expression::Access { base, index } => all(&[base, index]),
            Expression::AccessIndex { base, .. } => self.value(base),
            Expression::Splat { value, .. } => self.value(value),
            Expression::Swizzle { vector, .. } => self.value(vector),
            Expression::Unary { expr, .. } | Expression::As { expr, .. } => self.value(expr),
            Expression::Binary { left, right, .. } => all(&[left, right]),
            Expression::Select {
                condition,
                accept,
                reject,
            } => all(&[condition, accept, reject]),
            Expression::Relational { argument, .. } => self.value(argument),
            Expression::Math {
                arg,
                arg1,
                arg2,
                arg3,
                ..
            } => {
                self.value(arg)
                    && [arg1, arg2, arg3]
                        .into_iter()
                        .flatten()
                        .all(|a| self.value(a))
            }
            Expression::Load { pointer } => {
                self.value(pointer) && self.memory(pointer) && !self.is_atomic(pointer)
            }
            Expression::SubgroupBallotResult | Expression::SubgroupOperationResult { .. } => {
                !self.varying_results[handle.index()]
            }
            _ => false,
        }
    }

    /// Whether other subgroups may write behind `pointer` between one lane's load and another's.
    fn is_atomic(&self, mut pointer: Handle<Expression>) -> bool {
        while let Expression::Access { base, .. } | Expression::AccessIndex { base, .. } =
            self.function.expressions[pointer]
        {
            pointer = base;
        }
        // Only workgroup and writable storage memory holds atomics, and the latter is not uniform.
        match self.function.expressions[pointer] {
            Expression::GlobalVariable(global) => {
                holds_atomic(self.module, self.module.global_variables[global].ty)
            }
            _ => false,
        }
    }

    /// Whether all lanes that read the memory behind a uniform pointer read the same.
    fn memory(&self, pointer: Handle<Expression>) -> bool {
        match self.function.expressions[pointer] {
            Expression::Access { base, .. } | Expression::AccessIndex { base, .. } => {
                self.memory(base)
            }
            Expression::LocalVariable(local) => !self.varying[local.index()],
            Expression::GlobalVariable(global) => {
                match self.module.global_variables[global].space {
                    AddressSpace::Storage { access } => !access.contains(StorageAccess::STORE),
                    AddressSpace::Uniform | AddressSpace::WorkGroup => true,
                    _ => false,
                }
            }
            _ => false,
        }
    }

    fn store(&mut self, pointer: Handle<Expression>, uniform: bool) {
        match self.function.expressions[pointer] {
            Expression::Access { base, index } => {
                let uniform = uniform && self.value(index);
                self.store(base, uniform);
            }
            Expression::AccessIndex { base, .. } => self.store(base, uniform),
            Expression::LocalVariable(local) if !uniform => {
                self.changed |= !std::mem::replace(&mut self.varying[local.index()], true);
            }
            _ => {}
        }
    }

    fn operation(&mut self, uniform: bool) -> bool {
        let here = self.here(uniform);
        match self.operations.get_mut(self.next) {
            Some(known) => *known &= here,
            None => self.operations.push(here),
        }
        self.next += 1;
        here
    }

    fn result(&mut self, handle: Handle<Expression>, uniform: bool) {
        if !uniform {
            let known = std::mem::replace(&mut self.varying_results[handle.index()], true);
            self.changed |= !known;
        }
    }

    /// Lanes leave the innermost loop, or what `is_target` says, at this point.
    fn leave(&mut self, uniform: bool, is_target: impl Fn(&Frame) -> bool) {
        if self.here(uniform) {
            return;
        }
        for frame in self.frames.iter_mut().rev() {
            frame.diverged = true;
            if is_target(frame) {
                return;
            }
        }
    }

    fn block(&mut self, block: &'a Block, uniform: bool) {
        for statement in block.iter() {
            self.statement(statement, uniform);
        }
    }

    fn statement(&mut self, statement: &'a Statement, uniform: bool) {
        match *statement {
            Statement::Block(ref inner) => self.block(inner, uniform),
            Statement::If {
                condition,
                ref accept,
                ref reject,
            } => {
                let inside = uniform && self.value(condition);
                self.block(accept, inside);
                self.block(reject, inside);
            }
            Statement::Switch {
                selector,
                ref cases,
            } => {
                let inside = uniform && self.value(selector);
                self.frames.push(Frame {
                    is_loop: false,
                    diverged: false,
                });
                cases.iter().for_each(|case| self.block(&case.body, inside));
                self.frames.pop();
            }
            Statement::Loop {
                ref body,
                ref continuing,
                break_if,
            } => {
                self.frames.push(Frame {
                    is_loop: true,
                    diverged: false,
                });
                let start = self.next;
                let mut turns = 0;
                loop {
                    self.next = start;
                    self.block(body, uniform);
                    self.block(continuing, uniform);
                    if let Some(condition) = break_if
                        && !self.value(condition)
                    {
                        self.leave(false, |frame| frame.is_loop);
                    }
                    turns += 1;
                    // Lanes that part in one turn are apart from the start of the next.
                    let diverged = self.frames.last().is_some_and(|frame| frame.diverged);
                    if turns == 2 || !(diverged || self.returned) {
                        break;
                    }
                }
                self.frames.pop();
            }
            Statement::Break => self.leave(uniform, |_| true),
            Statement::Continue => self.leave(uniform, |frame| frame.is_loop),
            Statement::Return { .. } => self.returned |= !self.here(uniform),
            Statement::Store { pointer, value } => {
                let same = self.here(uniform) && self.value(value);
                self.store(pointer, same);
            }
            Statement::Call {
                function,
                ref arguments,
                ..
            } => {
                let mut made = Calls {
                    uniform: self.here(uniform),
                    whole: self.own.whole,
                    arguments: Vec::new(),
                };
                for argument in arguments {
                    made.arguments.push(self.value(*argument));
                    // The callee may write what a pointer points to.
                    self.store(*argument, false);
                }
                self.calls.push((function, made));
            }
            Statement::SubgroupBallot { result, .. } => {
                let here = self.operation(uniform);
                self.result(result, here);
            }
            Statement::SubgroupCollectiveOperation {
                op,
                collective_op,
                result,
                ..
            } => {
                let here = self.operation(uniform);
                let same = collective_op == CollectiveOperation::Reduce
                    || matches!(op, SubgroupOperation::Any | SubgroupOperation::All);
                self.result(result, here && same);
            }
            Statement::SubgroupGather {
                mode,
                argument: _,
                result,
            } => {
                let here = self.operation(uniform);
                let same = matches!(mode, GatherMode::BroadcastFirst | GatherMode::Broadcast(_));
                self.result(result, here && same);
            }
            _ => {}
        }
    }
}
