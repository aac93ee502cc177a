; A call of a kernel on torch's tensors, from the interpreter's tuple of arguments to the driver's launches.
;
; `call` is what the interpreter calls: it asks each tensor what it is by torch's C functions, looks for a plan of these
; shapes, fills the addresses into the plan's launches and makes them. What does not fit is "other", for which nothing
; was done: Python goes a longer way, which also says what is wrong. Nothing is written into a plan while it is used but
; a tensor map, under the interpreter's lock; the lock is given up while the driver launches, which may wait.

; What every kernel needs: functions of the driver, of the interpreter and of torch, and objects. `native.py` names them.
%env = type {
  ptr, ptr, ptr,                       ; 0 the driver: launch, 1 encode a tensor map, 2 whether a stream is captured
  ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr,  ; 3 the interpreter: save, 4 restore, 5 call with nothing, 6 with one,
                                       ; 7 attribute, 8 more, 9 fewer references, 10 number, 11 forget an error
  ptr, ptr, ptr, ptr,                  ; 12 objects: the type of tuples, 13 None, 14 NotImplemented, 15 False
  ptr, ptr, ptr,                       ; 16 torch: the type of tensors, 17 "requires_grad", 18 is_neg
  ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr, ptr,  ; 19 layout, 20 device type, 21 device, 22 contiguous, 23 dtype,
                                       ; 24 dimensions, 25 sizes, 26 address, 27 stream
  ptr,                                 ; 28 the number of a stream
  i64, i64, i64, i64,                  ; 29 where a tensor lies in its object, 30 strided, 31 CUDA, 32 which GPU
  ptr,                                 ; 33 launch a graph
  ptr, ptr,                            ; 34 torch: bytes of a tensor's storage, 35 elements of it before the tensor
  ptr                                  ; 36 the first room
}
; Memory for intermediates on a stream: the next room, the stream's handle and number, and where it is, 0 while in use.
%room = type { ptr, i64, i64, i64 }
; A kernel: environment, first plan, inputs, outputs, an %arg for each of them, and what raises for a failed launch.
%head = type { ptr, ptr, i64, i64, ptr, ptr }
; An argument: dtype, dimensions, bits of the address that are 0, whether it is written, bytes of an element.
%arg = type { i64, i64, i64, i64, i64 }
; Shapes that were met: the next plan, sizes in order, bytes by argument, whether an argument has one element only, what
; makes outputs, whether there are intermediates, how many launches, and those; how many tensor maps, and those.
%plan = type { ptr, ptr, ptr, ptr, ptr, i64, i64, ptr, i64, ptr }
; A launch: function, CUlaunchConfig, parameters: how many, and each; how many tensor maps behind them, the first one.
%launch = type { ptr, [7 x i64], i64, ptr, i64, i64 }
; A parameter: of what it is (0: a number, 1: where an argument is, 2: where intermediates are), and the number or which.
%word = type { i64, i64 }
; A tensor map: of which address it is made, and was made last, where it is kept; then what the driver is told of it.
%map = type { %word, i64, ptr, i64, i64, ptr, ptr, ptr, ptr, i64, i64, i64, i64 }
; A tensor of this call: where it lies, its sizes, the object.
%fact = type { i64, ptr, ptr }

declare void @llvm.memcpy.p0.p0.i64(ptr, ptr, i64, i1)

; Item `n` of a tuple.
define internal ptr @item(ptr %tuple, i64 %n) alwaysinline {
  %items = getelementptr i8, ptr %tuple, i64 24
  %at = getelementptr ptr, ptr %items, i64 %n
  %x = load ptr, ptr %at
  ret ptr %x
}

define internal i64 @length(ptr %tuple) alwaysinline {
  %at = getelementptr i64, ptr %tuple, i64 2
  %n = load i64, ptr %at
  ret i64 %n
}

define internal ptr @type(ptr %x) alwaysinline {
  %at = getelementptr ptr, ptr %x, i64 1
  %t = load ptr, ptr %at
  ret ptr %t
}

; What torch's function `which` of the environment tells of a tensor; -1 where it fails.
define internal i64 @asked(ptr %env, i64 %which, ptr %tensor) alwaysinline {
  %where = alloca i64
  store i64 0, ptr %where
  %at = getelementptr ptr, ptr %env, i64 %which
  %ask = load ptr, ptr %at
  %code = call i32 %ask(ptr %tensor, ptr %where)
  %value = load i64, ptr %where
  %well = icmp eq i32 %code, 0
  %told = select i1 %well, i64 %value, i64 -1
  ret i64 %told
}

; Whether `x` is a tensor as the argument wants it; if so, what is known of it is noted.
define internal i1 @noted(ptr %env, ptr %x, ptr %arg, ptr %fact) {
entry:
  %type = call ptr @type(ptr %x)
  %tensors.at = getelementptr %env, ptr %env, i32 0, i32 16
  %tensors = load ptr, ptr %tensors.at
  %is.tensor = icmp eq ptr %type, %tensors
  br i1 %is.tensor, label %tensor, label %no
tensor:
  %offset.at = getelementptr %env, ptr %env, i32 0, i32 29
  %offset = load i64, ptr %offset.at
  %t = getelementptr i8, ptr %x, i64 %offset
  %layout = call i64 @asked(ptr %env, i64 19, ptr %t)
  %strided.at = getelementptr %env, ptr %env, i32 0, i32 30
  %strided = load i64, ptr %strided.at
  %is.strided = icmp eq i64 %layout, %strided
  br i1 %is.strided, label %dense, label %no
dense:
  %kind = call i64 @asked(ptr %env, i64 20, ptr %t)
  %cuda.at = getelementptr %env, ptr %env, i32 0, i32 31
  %cuda = load i64, ptr %cuda.at
  %on.cuda = icmp eq i64 %kind, %cuda
  br i1 %on.cuda, label %placed, label %no
placed:
  %index = call i64 @asked(ptr %env, i64 21, ptr %t)
  %gpu.at = getelementptr %env, ptr %env, i32 0, i32 32
  %gpu = load i64, ptr %gpu.at
  %here = icmp eq i64 %index, %gpu
  %contiguous = call i64 @asked(ptr %env, i64 22, ptr %t)
  %whole = icmp eq i64 %contiguous, 1
  %dtype = call i64 @asked(ptr %env, i64 23, ptr %t)
  %want.dtype = load i64, ptr %arg
  %typed = icmp eq i64 %dtype, %want.dtype
  %dims = call i64 @asked(ptr %env, i64 24, ptr %t)
  %want.at = getelementptr %arg, ptr %arg, i32 0, i32 1
  %want = load i64, ptr %want.at
  %deep = icmp eq i64 %dims, %want
  %one = and i1 %here, %whole
  %two = and i1 %typed, %deep
  %both = and i1 %one, %two
  br i1 %both, label %plain, label %no
plain:
  %sizes = call i64 @asked(ptr %env, i64 25, ptr %t)
  %data = call i64 @asked(ptr %env, i64 26, ptr %t)
  %low.at = getelementptr %arg, ptr %arg, i32 0, i32 2
  %low = load i64, ptr %low.at
  %rest = and i64 %data, %low
  %aligned = icmp eq i64 %rest, 0
  %there = icmp ne i64 %data, 0
  %usable = and i1 %aligned, %there
  br i1 %usable, label %ask, label %no
ask:
  %get.at = getelementptr %env, ptr %env, i32 0, i32 7
  %get = load ptr, ptr %get.at
  %name.at = getelementptr %env, ptr %env, i32 0, i32 17
  %name = load ptr, ptr %name.at
  %grad = call ptr %get(ptr %x, ptr %name)
  %free = call i1 @false(ptr %env, ptr %grad)
  %sizes.ptr = inttoptr i64 %sizes to ptr
  store i64 %data, ptr %fact
  %sizes.at = getelementptr %fact, ptr %fact, i32 0, i32 1
  store ptr %sizes.ptr, ptr %sizes.at
  %x.at = getelementptr %fact, ptr %fact, i32 0, i32 2
  store ptr %x, ptr %x.at
  ret i1 %free
no:
  ret i1 false
}

; Whether an object, which is given up, is False. An error is forgotten: the longer way meets it again.
define internal i1 @false(ptr %env, ptr %x) {
  %missing = icmp eq ptr %x, null
  br i1 %missing, label %error, label %there
error:
  %forget.at = getelementptr %env, ptr %env, i32 0, i32 11
  %forget = load ptr, ptr %forget.at
  call void %forget()
  ret i1 false
there:
  %false.at = getelementptr %env, ptr %env, i32 0, i32 15
  %false = load ptr, ptr %false.at
  %is = icmp eq ptr %x, %false
  call void @fewer(ptr %env, ptr %x)
  ret i1 %is
}

define internal void @fewer(ptr %env, ptr %x) {
  %at = getelementptr %env, ptr %env, i32 0, i32 9
  %fewer = load ptr, ptr %at
  call void %fewer(ptr %x)
  ret void
}

define internal void @more(ptr %env, ptr %x) {
  %at = getelementptr %env, ptr %env, i32 0, i32 8
  %more = load ptr, ptr %at
  call void %more(ptr %x)
  ret void
}

; Note the tensors of a tuple, which are the arguments from number `first` on.
define internal i1 @all_noted(ptr %head, ptr %env, ptr %tuple, i64 %first, i64 %count, ptr %facts) {
entry:
  %args.at = getelementptr %head, ptr %head, i32 0, i32 4
  %args = load ptr, ptr %args.at
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %more ]
  %some = icmp ult i64 %n, %count
  br i1 %some, label %more, label %yes
more:
  %x = call ptr @item(ptr %tuple, i64 %n)
  %k = add i64 %first, %n
  %arg = getelementptr %arg, ptr %args, i64 %k
  %fact = getelementptr %fact, ptr %facts, i64 %k
  %well = call i1 @noted(ptr %env, ptr %x, ptr %arg, ptr %fact)
  %after = add i64 %n, 1
  br i1 %well, label %next, label %no
yes:
  ret i1 true
no:
  ret i1 false
}

; The first plan of the shapes of the first `count` arguments; null if there is none.
define internal ptr @planned(ptr %head, i64 %count, ptr %facts) {
entry:
  %args.at = getelementptr %head, ptr %head, i32 0, i32 4
  %args = load ptr, ptr %args.at
  br label %another
another:
  %before = phi ptr [ %head, %entry ], [ %plan.next, %unlike ]
  %offset = phi i64 [ 1, %entry ], [ 0, %unlike ]
  %plan.at = getelementptr ptr, ptr %before, i64 %offset
  %plan = load ptr, ptr %plan.at
  %none = icmp eq ptr %plan, null
  br i1 %none, label %found, label %compare
compare:
  %shapes.at = getelementptr %plan, ptr %plan, i32 0, i32 1
  %shapes = load ptr, ptr %shapes.at
  br label %next
next:
  %k = phi i64 [ 0, %compare ], [ %k.after, %whole ]
  %base = phi i64 [ 0, %compare ], [ %base.after, %whole ]
  %some = icmp ult i64 %k, %count
  br i1 %some, label %argument, label %found
argument:
  %dims.at = getelementptr %arg, ptr %args, i64 %k, i32 1
  %dims = load i64, ptr %dims.at
  %sizes.at = getelementptr %fact, ptr %facts, i64 %k, i32 1
  %sizes = load ptr, ptr %sizes.at
  br label %dimension
dimension:
  %d = phi i64 [ 0, %argument ], [ %d.after, %look ]
  %more = icmp ult i64 %d, %dims
  br i1 %more, label %look, label %whole
look:
  %size.at = getelementptr i64, ptr %sizes, i64 %d
  %size = load i64, ptr %size.at
  %place = add i64 %base, %d
  %want.at = getelementptr i64, ptr %shapes, i64 %place
  %want = load i64, ptr %want.at
  %d.after = add i64 %d, 1
  %alike = icmp eq i64 %size, %want
  br i1 %alike, label %dimension, label %unlike
whole:
  %k.after = add i64 %k, 1
  %base.after = add i64 %base, %dims
  br label %next
unlike:
  %plan.next = phi ptr [ %plan, %look ]
  br label %another
found:
  %result = phi ptr [ null, %another ], [ %plan, %next ]
  ret ptr %result
}

; Whether the storage of each tensor holds all of it, nothing that is written shares memory with anything else, and no
; tensor of one element is a lazy view.
define internal i1 @apart(ptr %head, ptr %env, ptr %plan, i64 %count, ptr %facts) {
entry:
  %args.at = getelementptr %head, ptr %head, i32 0, i32 4
  %args = load ptr, ptr %args.at
  %bytes.at = getelementptr %plan, ptr %plan, i32 0, i32 2
  %bytes = load ptr, ptr %bytes.at
  %lone.at = getelementptr %plan, ptr %plan, i32 0, i32 3
  %lone = load ptr, ptr %lone.at
  %offset.at = getelementptr %env, ptr %env, i32 0, i32 29
  %offset = load i64, ptr %offset.at
  %is.neg.at = getelementptr %env, ptr %env, i32 0, i32 18
  %is.neg = load ptr, ptr %is.neg.at
  %call.at = getelementptr %env, ptr %env, i32 0, i32 6
  %call = load ptr, ptr %call.at
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %n.after, %done ]
  %some = icmp ult i64 %n, %count
  br i1 %some, label %one, label %yes
one:
  %begin.at = getelementptr %fact, ptr %facts, i64 %n
  %begin = load i64, ptr %begin.at
  %size.at = getelementptr i64, ptr %bytes, i64 %n
  %size = load i64, ptr %size.at
  %end = add i64 %begin, %size
  %written.at = getelementptr %arg, ptr %args, i64 %n, i32 3
  %written = load i64, ptr %written.at
  %alone.at = getelementptr i64, ptr %lone, i64 %n
  %alone = load i64, ptr %alone.at
  %is.alone = icmp ne i64 %alone, 0
  %x.at = getelementptr %fact, ptr %facts, i64 %n, i32 2
  %x = load ptr, ptr %x.at
  %t = getelementptr i8, ptr %x, i64 %offset
  %storage = call i64 @asked(ptr %env, i64 34, ptr %t)
  %skipped = call i64 @asked(ptr %env, i64 35, ptr %t)
  %item.at = getelementptr %arg, ptr %args, i64 %n, i32 4
  %item = load i64, ptr %item.at
  %skipped.bytes = mul i64 %skipped, %item
  %held.bytes = sub i64 %storage, %skipped.bytes
  %enough = icmp sge i64 %held.bytes, %size
  br i1 %enough, label %held, label %no
held:
  br i1 %is.alone, label %lazy, label %others
lazy:
  %neg = call ptr %call(ptr %is.neg, ptr %x)
  %plain = call i1 @false(ptr %env, ptr %neg)
  br i1 %plain, label %others, label %no
others:
  %k = phi i64 [ 0, %held ], [ 0, %lazy ], [ %k.after, %other ]
  %left = icmp ult i64 %k, %n
  br i1 %left, label %other, label %done
other:
  %k.begin.at = getelementptr %fact, ptr %facts, i64 %k
  %k.begin = load i64, ptr %k.begin.at
  %k.size.at = getelementptr i64, ptr %bytes, i64 %k
  %k.size = load i64, ptr %k.size.at
  %k.end = add i64 %k.begin, %k.size
  %k.written.at = getelementptr %arg, ptr %args, i64 %k, i32 3
  %k.written = load i64, ptr %k.written.at
  %either = or i64 %written, %k.written
  %matters = icmp ne i64 %either, 0
  %before = icmp ult i64 %begin, %k.end
  %behind = icmp ult i64 %k.begin, %end
  %meet = and i1 %before, %behind
  %wrong = and i1 %meet, %matters
  %k.after = add i64 %k, 1
  br i1 %wrong, label %no, label %others
done:
  %n.after = add i64 %n, 1
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}

; The room of a stream that takes work now; null if there is none. A stream that is captured into a graph has none: the
; graph may run at any time.
define internal ptr @room(ptr %env, i64 %stream) {
entry:
  %first = getelementptr %env, ptr %env, i32 0, i32 36
  br label %next
next:
  %at = phi ptr [ %first, %entry ], [ %room, %look ]
  %room = load ptr, ptr %at
  %none = icmp eq ptr %room, null
  br i1 %none, label %no, label %look
look:
  %handle.at = getelementptr %room, ptr %room, i32 0, i32 1
  %handle = load i64, ptr %handle.at
  %same = icmp eq i64 %handle, %stream
  br i1 %same, label %known, label %next
known:
  %default = icmp ult i64 %stream, 2
  br i1 %default, label %yes, label %ask
ask:
  %capturing = call i64 @told(ptr %env, i64 2, i64 %stream)
  %number = call i64 @told(ptr %env, i64 28, i64 %stream)
  %number.at = getelementptr %room, ptr %room, i32 0, i32 2
  %was = load i64, ptr %number.at
  %live = icmp eq i64 %capturing, 0
  %still = icmp eq i64 %number, %was
  %both = and i1 %live, %still
  br i1 %both, label %yes, label %no
yes:
  ret ptr %room
no:
  ret ptr null
}

; What the driver's function `which` of the environment tells of a stream; -1 where it fails.
define internal i64 @told(ptr %env, i64 %which, i64 %stream) {
  %where = alloca i64
  store i64 0, ptr %where
  %at = getelementptr ptr, ptr %env, i64 %which
  %ask = load ptr, ptr %at
  %code = call i32 %ask(i64 %stream, ptr %where)
  %value = load i64, ptr %where
  %well = icmp eq i32 %code, 0
  %told = select i1 %well, i64 %value, i64 -1
  ret i64 %told
}

; The value of a parameter.
define internal i64 @value(ptr %word, ptr %facts, i64 %memory) {
entry:
  %kind = load i64, ptr %word
  %number.at = getelementptr %word, ptr %word, i32 0, i32 1
  %number = load i64, ptr %number.at
  switch i64 %kind, label %settled [ i64 1, label %argument
                                     i64 2, label %intermediate ]
settled:
  ret i64 %number
argument:
  %data.at = getelementptr %fact, ptr %facts, i64 %number
  %data = load i64, ptr %data.at
  ret i64 %data
intermediate:
  %sum = add i64 %memory, %number
  ret i64 %sum
}

; Have all tensor maps of a plan made for the addresses of this call, and copied to `copies`, 128 bytes each.
define internal i1 @mapped(ptr %env, ptr %plan, ptr %facts, i64 %memory, ptr %copies) {
entry:
  %count.at = getelementptr %plan, ptr %plan, i32 0, i32 8
  %count = load i64, ptr %count.at
  %maps.at = getelementptr %plan, ptr %plan, i32 0, i32 9
  %maps = load ptr, ptr %maps.at
  %encode.at = getelementptr %env, ptr %env, i32 0, i32 1
  %encode = load ptr, ptr %encode.at
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %copy ]
  %some = icmp ult i64 %n, %count
  br i1 %some, label %one, label %yes
one:
  %map = getelementptr %map, ptr %maps, i64 %n
  %pointer = call i64 @value(ptr %map, ptr %facts, i64 %memory)
  %last.at = getelementptr %map, ptr %map, i32 0, i32 1
  %last = load i64, ptr %last.at
  %kept.at = getelementptr %map, ptr %map, i32 0, i32 2
  %kept = load ptr, ptr %kept.at
  %same = icmp eq i64 %pointer, %last
  br i1 %same, label %copy, label %make
make:
  %dtype.at = getelementptr %map, ptr %map, i32 0, i32 3
  %dtype.word = load i64, ptr %dtype.at
  %dtype = trunc i64 %dtype.word to i32
  %rank.at = getelementptr %map, ptr %map, i32 0, i32 4
  %rank.word = load i64, ptr %rank.at
  %rank = trunc i64 %rank.word to i32
  %sizes.at = getelementptr %map, ptr %map, i32 0, i32 5
  %sizes = load ptr, ptr %sizes.at
  %strides.at = getelementptr %map, ptr %map, i32 0, i32 6
  %strides = load ptr, ptr %strides.at
  %box.at = getelementptr %map, ptr %map, i32 0, i32 7
  %box = load ptr, ptr %box.at
  %steps.at = getelementptr %map, ptr %map, i32 0, i32 8
  %steps = load ptr, ptr %steps.at
  %interleave.at = getelementptr %map, ptr %map, i32 0, i32 9
  %interleave.word = load i64, ptr %interleave.at
  %interleave = trunc i64 %interleave.word to i32
  %swizzle.at = getelementptr %map, ptr %map, i32 0, i32 10
  %swizzle.word = load i64, ptr %swizzle.at
  %swizzle = trunc i64 %swizzle.word to i32
  %promotion.at = getelementptr %map, ptr %map, i32 0, i32 11
  %promotion.word = load i64, ptr %promotion.at
  %promotion = trunc i64 %promotion.word to i32
  %fill.at = getelementptr %map, ptr %map, i32 0, i32 12
  %fill.word = load i64, ptr %fill.at
  %fill = trunc i64 %fill.word to i32
  store i64 0, ptr %last.at
  %code = call i32 %encode(ptr %kept, i32 %dtype, i32 %rank, i64 %pointer, ptr %sizes, ptr %strides, ptr %box,
                           ptr %steps, i32 %interleave, i32 %swizzle, i32 %promotion, i32 %fill)
  %made = icmp eq i32 %code, 0
  br i1 %made, label %keep, label %no
keep:
  store i64 %pointer, ptr %last.at
  br label %copy
copy:
  %to = getelementptr [128 x i8], ptr %copies, i64 %n
  call void @llvm.memcpy.p0.p0.i64(ptr %to, ptr %kept, i64 128, i1 false)
  %after = add i64 %n, 1
  br label %next
yes:
  ret i1 true
no:
  ret i1 false
}

; Make one launch; what the driver gives.
define internal i32 @launch(ptr %env, ptr %launch, i64 %stream, ptr %facts, i64 %memory, ptr %copies) {
entry:
  %config = alloca [7 x i64], align 16
  %values = alloca [64 x i64], align 16
  %each = alloca [72 x ptr], align 16
  %function = load ptr, ptr %launch
  %shape = getelementptr %launch, ptr %launch, i32 0, i32 1
  call void @llvm.memcpy.p0.p0.i64(ptr %config, ptr %shape, i64 56, i1 false)
  %stream.at = getelementptr i64, ptr %config, i64 4
  store i64 %stream, ptr %stream.at
  %count.at = getelementptr %launch, ptr %launch, i32 0, i32 2
  %count = load i64, ptr %count.at
  %words.at = getelementptr %launch, ptr %launch, i32 0, i32 3
  %words = load ptr, ptr %words.at
  %maps.at = getelementptr %launch, ptr %launch, i32 0, i32 4
  %maps = load i64, ptr %maps.at
  %first.at = getelementptr %launch, ptr %launch, i32 0, i32 5
  %first = load i64, ptr %first.at
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %more ]
  %some = icmp ult i64 %n, %count
  br i1 %some, label %more, label %map
more:
  %word = getelementptr %word, ptr %words, i64 %n
  %value = call i64 @value(ptr %word, ptr %facts, i64 %memory)
  %value.at = getelementptr i64, ptr %values, i64 %n
  store i64 %value, ptr %value.at
  %each.at = getelementptr ptr, ptr %each, i64 %n
  store ptr %value.at, ptr %each.at
  %after = add i64 %n, 1
  br label %next
map:
  %m = phi i64 [ 0, %next ], [ %m.after, %place ]
  %left = icmp ult i64 %m, %maps
  br i1 %left, label %place, label %start
place:
  %which = add i64 %first, %m
  %copy = getelementptr [128 x i8], ptr %copies, i64 %which
  %behind = add i64 %count, %m
  %map.at = getelementptr ptr, ptr %each, i64 %behind
  store ptr %copy, ptr %map.at
  %m.after = add i64 %m, 1
  br label %map
start:
  %start.at = getelementptr %env, ptr %env, i32 0, i32 0
  %start.fn = load ptr, ptr %start.at
  %code = call i32 %start.fn(ptr %config, ptr %function, ptr %each, ptr null)
  ret i32 %code
}

; All launches of a plan, without the interpreter's lock: 0, or what failed, and behind it which (from bit 32).
define internal i64 @launched(ptr %env, ptr %plan, i64 %stream, ptr %facts, i64 %memory, ptr %copies) {
entry:
  %count.at = getelementptr %plan, ptr %plan, i32 0, i32 6
  %count = load i64, ptr %count.at
  %launches.at = getelementptr %plan, ptr %plan, i32 0, i32 7
  %launches = load ptr, ptr %launches.at
  %save.at = getelementptr %env, ptr %env, i32 0, i32 3
  %save = load ptr, ptr %save.at
  %restore.at = getelementptr %env, ptr %env, i32 0, i32 4
  %restore = load ptr, ptr %restore.at
  %thread = call ptr %save()
  br label %next
next:
  %n = phi i64 [ 0, %entry ], [ %after, %one ]
  %failed = phi i64 [ 0, %entry ], [ %both, %one ]
  %some = icmp ult i64 %n, %count
  %well = icmp eq i64 %failed, 0
  %on = and i1 %some, %well
  br i1 %on, label %one, label %over
one:
  %launch = getelementptr %launch, ptr %launches, i64 %n
  %code = call i32 @launch(ptr %env, ptr %launch, i64 %stream, ptr %facts, i64 %memory, ptr %copies)
  %low = zext i32 %code to i64
  %is.well = icmp eq i32 %code, 0
  %high = shl i64 %n, 32
  %marked = or i64 %high, %low
  %both = select i1 %is.well, i64 0, i64 %marked
  %after = add i64 %n, 1
  br label %next
over:
  call void %restore(ptr %thread)
  ret i64 %failed
}

; The stream that torch works on; -1 where it does not tell.
define internal i64 @stream(ptr %env) {
  %where = alloca i64
  %ask.at = getelementptr %env, ptr %env, i32 0, i32 27
  %ask = load ptr, ptr %ask.at
  %gpu.at = getelementptr %env, ptr %env, i32 0, i32 32
  %gpu.word = load i64, ptr %gpu.at
  %gpu = trunc i64 %gpu.word to i32
  %code = call i32 %ask(i32 %gpu, ptr %where)
  %well = icmp eq i32 %code, 0
  %stream = load i64, ptr %where
  %told = select i1 %well, i64 %stream, i64 -1
  ret i64 %told
}

; Fill in the addresses of this call and launch: 0, what failed, or -1 for a call that goes the longer way.
define internal i64 @run(ptr %env, ptr %plan, ptr %facts) {
entry:
  %copies = alloca [8 x [128 x i8]], align 64
  %stream = call i64 @stream(ptr %env)
  %untold = icmp eq i64 %stream, -1
  br i1 %untold, label %other, label %streamed
streamed:
  %needs.at = getelementptr %plan, ptr %plan, i32 0, i32 5
  %needs = load i64, ptr %needs.at
  %alone = icmp eq i64 %needs, 0
  br i1 %alone, label %simple, label %roomy
simple:
  %mapped = call i1 @mapped(ptr %env, ptr %plan, ptr %facts, i64 0, ptr %copies)
  br i1 %mapped, label %simply, label %other
simply:
  %result = call i64 @launched(ptr %env, ptr %plan, i64 %stream, ptr %facts, i64 0, ptr %copies)
  ret i64 %result
roomy:
  %room = call ptr @room(ptr %env, i64 %stream)
  %none = icmp eq ptr %room, null
  br i1 %none, label %other, label %take
take:
  %memory.at = getelementptr %room, ptr %room, i32 0, i32 3
  %memory = atomicrmw xchg ptr %memory.at, i64 0 acquire
  %busy = icmp eq i64 %memory, 0
  br i1 %busy, label %other, label %taken
taken:
  %taken.mapped = call i1 @mapped(ptr %env, ptr %plan, ptr %facts, i64 %memory, ptr %copies)
  br i1 %taken.mapped, label %go, label %back
go:
  %roomy.result = call i64 @launched(ptr %env, ptr %plan, i64 %stream, ptr %facts, i64 %memory, ptr %copies)
  br label %back
back:
  %outcome = phi i64 [ -1, %taken ], [ %roomy.result, %go ]
  store atomic i64 %memory, ptr %memory.at release, align 8
  ret i64 %outcome
other:
  ret i64 -1
}

; call(args, out): the tuple of the inputs, and that of the outputs or None. It gives what the kernel's call returns, or
; NotImplemented for a call that goes a longer way. `self` is a tuple whose first item is a bytes with
; the head's address.
define ptr @call(ptr %self, ptr %given, i64 %count) {
entry:
  %facts = alloca [16 x %fact], align 16
  %bytes = call ptr @item(ptr %self, i64 0)
  %head.at = getelementptr i8, ptr %bytes, i64 32
  %head = load ptr, ptr %head.at
  %env = load ptr, ptr %head
  %tuples.at = getelementptr %env, ptr %env, i32 0, i32 12
  %tuples = load ptr, ptr %tuples.at
  %none.at = getelementptr %env, ptr %env, i32 0, i32 13
  %none = load ptr, ptr %none.at
  %inputs.at = getelementptr %head, ptr %head, i32 0, i32 2
  %inputs = load i64, ptr %inputs.at
  %outputs.at = getelementptr %head, ptr %head, i32 0, i32 3
  %outputs = load i64, ptr %outputs.at
  %all = add i64 %inputs, %outputs
  %args = load ptr, ptr %given
  %out.at = getelementptr ptr, ptr %given, i64 1
  %out = load ptr, ptr %out.at
  %args.count = call i64 @length(ptr %args)
  %complete = icmp eq i64 %args.count, %inputs
  br i1 %complete, label %ask, label %other
ask:
  %noted = call i1 @all_noted(ptr %head, ptr %env, ptr %args, i64 0, i64 %inputs, ptr %facts)
  br i1 %noted, label %which, label %other
which:
  %new = icmp eq ptr %out, %none
  br i1 %new, label %make, label %given.out
given.out:
  %out.type = call ptr @type(ptr %out)
  %is.tuple = icmp eq ptr %out.type, %tuples
  br i1 %is.tuple, label %counted, label %other
counted:
  %out.count = call i64 @length(ptr %out)
  %out.complete = icmp eq i64 %out.count, %outputs
  br i1 %out.complete, label %placed, label %other
placed:
  %placed.noted = call i1 @all_noted(ptr %head, ptr %env, ptr %out, i64 %inputs, i64 %outputs, ptr %facts)
  br i1 %placed.noted, label %find, label %other
find:
  %placed.plan = call ptr @planned(ptr %head, i64 %all, ptr %facts)
  %unknown = icmp eq ptr %placed.plan, null
  br i1 %unknown, label %other, label %hold
hold:
  call void @more(ptr %env, ptr %out)
  br label %check
make:
  %made.plan = call ptr @planned(ptr %head, i64 %inputs, ptr %facts)
  %made.unknown = icmp eq ptr %made.plan, null
  br i1 %made.unknown, label %other, label %maker
maker:
  %maker.at = getelementptr %plan, ptr %made.plan, i32 0, i32 4
  %make.outputs = load ptr, ptr %maker.at
  %call0.at = getelementptr %env, ptr %env, i32 0, i32 5
  %call0 = load ptr, ptr %call0.at
  %made = call ptr %call0(ptr %make.outputs)
  %raised = icmp eq ptr %made, null
  br i1 %raised, label %error, label %made.well
made.well:
  %made.noted = call i1 @all_noted(ptr %head, ptr %env, ptr %made, i64 %inputs, i64 %outputs, ptr %facts)
  br i1 %made.noted, label %check, label %drop
check:
  %plan = phi ptr [ %placed.plan, %hold ], [ %made.plan, %made.well ]
  %results = phi ptr [ %out, %hold ], [ %made, %made.well ]
  %apart = call i1 @apart(ptr %head, ptr %env, ptr %plan, i64 %all, ptr %facts)
  br i1 %apart, label %launch, label %drop
launch:
  %code = call i64 @run(ptr %env, ptr %plan, ptr %facts)
  %well = icmp eq i64 %code, 0
  br i1 %well, label %give, label %ill
give:
  switch i64 %outputs, label %several [ i64 0, label %nothing
                                        i64 1, label %single ]
several:
  ret ptr %results
single:
  %only = call ptr @item(ptr %results, i64 0)
  call void @more(ptr %env, ptr %only)
  call void @fewer(ptr %env, ptr %results)
  ret ptr %only
nothing:
  call void @more(ptr %env, ptr %none)
  call void @fewer(ptr %env, ptr %results)
  ret ptr %none
ill:
  %first = icmp ult i64 %code, 4294967296       ; nothing was launched: the longer way takes the GPU's context first
  %unlike = icmp eq i64 %code, -1
  %again = or i1 %first, %unlike
  br i1 %again, label %drop, label %fail
drop:
  %dropped = phi ptr [ %made, %made.well ], [ %results, %check ], [ %results, %ill ]
  call void @fewer(ptr %env, ptr %dropped)
  br label %other
fail:
  call void @fewer(ptr %env, ptr %results)
  %number.at = getelementptr %env, ptr %env, i32 0, i32 10
  %number = load ptr, ptr %number.at
  %told = call ptr %number(i64 %code)
  %failed.at = getelementptr %head, ptr %head, i32 0, i32 5
  %failed = load ptr, ptr %failed.at
  %call1.at = getelementptr %env, ptr %env, i32 0, i32 6
  %call1 = load ptr, ptr %call1.at
  %never = call ptr %call1(ptr %failed, ptr %told)
  call void @fewer(ptr %env, ptr %told)
  br label %error
error:
  ret ptr null
other:
  %not.at = getelementptr %env, ptr %env, i32 0, i32 14
  %not = load ptr, ptr %not.at
  call void @more(ptr %env, ptr %not)
  ret ptr %not
}

; replay(): launch the graph of a call again, and give its results; NotImplemented where that fails. `self` is like that
; of `call`, with the address of three words: the environment, the graph, the results.
define ptr @replay(ptr %self, ptr %given, i64 %count) {
entry:
  %bytes = call ptr @item(ptr %self, i64 0)
  %head.at = getelementptr i8, ptr %bytes, i64 32
  %head = load ptr, ptr %head.at
  %env = load ptr, ptr %head
  %graph.at = getelementptr ptr, ptr %head, i64 1
  %graph = load ptr, ptr %graph.at
  %results.at = getelementptr ptr, ptr %head, i64 2
  %results = load ptr, ptr %results.at
  %launch.at = getelementptr %env, ptr %env, i32 0, i32 33
  %launch = load ptr, ptr %launch.at
  %save.at = getelementptr %env, ptr %env, i32 0, i32 3
  %save = load ptr, ptr %save.at
  %restore.at = getelementptr %env, ptr %env, i32 0, i32 4
  %restore = load ptr, ptr %restore.at
  %not.at = getelementptr %env, ptr %env, i32 0, i32 14
  %not = load ptr, ptr %not.at
  %stream = call i64 @stream(ptr %env)
  %untold = icmp eq i64 %stream, -1
  br i1 %untold, label %give, label %start
start:
  %thread = call ptr %save()
  %code = call i32 %launch(ptr %graph, i64 %stream)
  call void %restore(ptr %thread)
  %well = icmp eq i32 %code, 0
  %outcome = select i1 %well, ptr %results, ptr %not
  br label %give
give:
  %given.back = phi ptr [ %not, %entry ], [ %outcome, %start ]
  call void @more(ptr %env, ptr %given.back)
  ret ptr %given.back
}
