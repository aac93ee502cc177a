; The threads of a pool at work: each has a part of a parallel loop, takes ranges of it, and then of the others' parts.
;
; Parts are the same from call to call, so that a thread finds in its cache what it wrote the last time (affinity
; scheduling: Markatos and LeBlanc). The caller has the first part, and workers that never came have theirs done by the
; others. A worker that has nothing to do looks for a loop a while before it sleeps, and so does a caller that waits for
; the workers: a loop is often followed by another, and waking a thread takes longer than many loops. After a short while
; it lets others run between two looks. Ranges become smaller towards the end of a part, so that a thread that is slow,
; or came late, does not hold up the others. `state` is one word: the number of the loop (from bit 32), whether it may
; still be joined (bit 31), and how many workers are in it. So a loop is over without those who never came, and memory
; for its arguments is the caller's.

%part = type { i64, i64, [6 x i64] }   ; 0 the next iteration, 1 the end

%pool = type {
  i64, [7 x i64],                      ; 0 state
  ptr, ptr, i64, i64, i64, [3 x i64],  ; 2 the loop: function, 3 arguments; 4 parts, 5 shares of a part, 6 patience
  i32, [15 x i32],                     ; 8 what failed
  i32, i32, i32, [13 x i32],           ; 10 workers asleep, 11 whether the caller is, 12 whether there is a caller
  [16 x i64], [16 x i64], [16 x i64],  ; 14 the lock, 15 "there is a loop", 16 "the workers have left"
  [0 x %part]                          ; 17 the parts
}

declare i32 @pthread_mutex_init(ptr, ptr)
declare i32 @pthread_mutex_lock(ptr)
declare i32 @pthread_mutex_unlock(ptr)
declare i32 @pthread_cond_init(ptr, ptr)
declare i32 @pthread_cond_wait(ptr, ptr)
declare i32 @pthread_cond_signal(ptr)
declare i32 @sched_yield()
declare void @llvm.x86.sse2.pause()

; What to do before look `n` but one: at first no more than to tell the core, then let other threads have it.
define internal void @pass(i64 %n) alwaysinline {
entry:
  %long = icmp ugt i64 %n, 1000
  br i1 %long, label %yield, label %pause
yield:
  call i32 @sched_yield()
  ret void
pause:
  call void @llvm.x86.sse2.pause()
  ret void
}

; The bytes of a pool with so many parts.
define i64 @size(i64 %parts) {
  %end = getelementptr %pool, ptr null, i32 0, i32 17, i64 %parts
  %bytes = ptrtoint ptr %end to i64
  ret i64 %bytes
}

; A pool in memory that is zero. A range is what is left of a part by `shares`; who waits looks `patience` times first.
define void @init(ptr %p, i64 %parts, i64 %shares, i64 %patience) {
  %parts.at = getelementptr %pool, ptr %p, i32 0, i32 4
  %shares.at = getelementptr %pool, ptr %p, i32 0, i32 5
  %patience.at = getelementptr %pool, ptr %p, i32 0, i32 6
  store i64 %parts, ptr %parts.at
  store i64 %shares, ptr %shares.at
  store i64 %patience, ptr %patience.at
  %lock = getelementptr %pool, ptr %p, i32 0, i32 14
  %work = getelementptr %pool, ptr %p, i32 0, i32 15
  %done = getelementptr %pool, ptr %p, i32 0, i32 16
  call i32 @pthread_mutex_init(ptr %lock, ptr null)
  call i32 @pthread_cond_init(ptr %work, ptr null)
  call i32 @pthread_cond_init(ptr %done, ptr null)
  ret void
}

; Deal begin .. extent-1 out to the parts: lengths differ by one at most.
define internal void @deal(ptr %p, i64 %begin, i64 %extent) {
entry:
  %parts.at = getelementptr %pool, ptr %p, i32 0, i32 4
  %parts = load i64, ptr %parts.at
  %left = sub i64 %extent, %begin
  %whole = udiv i64 %left, %parts
  %more = urem i64 %left, %parts
  br label %each
each:
  %n = phi i64 [ 0, %entry ], [ %n.next, %each ]
  %from = phi i64 [ %begin, %entry ], [ %to, %each ]
  %longer = icmp ult i64 %n, %more
  %one = zext i1 %longer to i64
  %length = add i64 %whole, %one
  %to = add i64 %from, %length
  %next.at = getelementptr %pool, ptr %p, i32 0, i32 17, i64 %n, i32 0
  %end.at = getelementptr %pool, ptr %p, i32 0, i32 17, i64 %n, i32 1
  store atomic i64 %from, ptr %next.at monotonic, align 8
  store i64 %to, ptr %end.at
  %n.next = add i64 %n, 1
  %on = icmp ult i64 %n.next, %parts
  br i1 %on, label %each, label %over
over:
  ret void
}

; Take ranges of part `own`, then of those behind it and before it, until there are none, or one failed; a range is one
; iteration at least.
define internal void @take(ptr %p, i64 %own) noinline {
entry:
  %fn.at = getelementptr %pool, ptr %p, i32 0, i32 2
  %args.at = getelementptr %pool, ptr %p, i32 0, i32 3
  %parts.at = getelementptr %pool, ptr %p, i32 0, i32 4
  %shares.at = getelementptr %pool, ptr %p, i32 0, i32 5
  %failed.at = getelementptr %pool, ptr %p, i32 0, i32 8
  %fn = load ptr, ptr %fn.at
  %args = load ptr, ptr %args.at
  %parts = load i64, ptr %parts.at
  %shares = load i64, ptr %shares.at
  br label %part
part:
  %n = phi i64 [ 0, %entry ], [ %n.next, %empty ]
  %place = add i64 %own, %n
  %at = urem i64 %place, %parts
  %next.at = getelementptr %pool, ptr %p, i32 0, i32 17, i64 %at, i32 0
  %end.at = getelementptr %pool, ptr %p, i32 0, i32 17, i64 %at, i32 1
  %last = load i64, ptr %end.at
  br label %look
look:
  %failed = load atomic i32, ptr %failed.at monotonic, align 4
  %begin = load atomic i64, ptr %next.at monotonic, align 8
  %left = sub i64 %last, %begin
  %some = icmp sgt i64 %left, 0
  %well = icmp eq i32 %failed, 0
  br i1 %well, label %try, label %over
try:
  br i1 %some, label %choose, label %empty
choose:
  %range = udiv i64 %left, %shares
  %none = icmp eq i64 %range, 0
  %count = select i1 %none, i64 1, i64 %range
  %end = add i64 %begin, %count
  %swap = cmpxchg ptr %next.at, i64 %begin, i64 %end monotonic monotonic
  %mine = extractvalue { i64, i1 } %swap, 1
  br i1 %mine, label %run, label %look
run:
  %code = call i32 %fn(ptr %args, i64 %begin, i64 %end)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %fail, label %look
fail:
  store atomic i32 %code, ptr %failed.at monotonic, align 4
  br label %over
empty:
  %n.next = add i64 %n, 1
  %on = icmp ult i64 %n.next, %parts
  br i1 %on, label %part, label %over
over:
  ret void
}

; Wake a sleeper or two, if there is work for them; who wakes does the same.
define internal void @wake(ptr %p) noinline {
entry:
  %parts.at = getelementptr %pool, ptr %p, i32 0, i32 4
  %asleep.at = getelementptr %pool, ptr %p, i32 0, i32 10
  %lock = getelementptr %pool, ptr %p, i32 0, i32 14
  %work = getelementptr %pool, ptr %p, i32 0, i32 15
  %parts = load i64, ptr %parts.at
  %asleep = load atomic i32, ptr %asleep.at seq_cst, align 4
  %any = icmp sgt i32 %asleep, 0
  br i1 %any, label %part, label %over
part:
  %n = phi i64 [ 0, %entry ], [ %n.next, %empty ]
  %next.at = getelementptr %pool, ptr %p, i32 0, i32 17, i64 %n, i32 0
  %end.at = getelementptr %pool, ptr %p, i32 0, i32 17, i64 %n, i32 1
  %next = load atomic i64, ptr %next.at monotonic, align 8
  %end = load i64, ptr %end.at
  %some = icmp slt i64 %next, %end
  br i1 %some, label %signal, label %empty
empty:
  %n.next = add i64 %n, 1
  %on = icmp ult i64 %n.next, %parts
  br i1 %on, label %part, label %over
signal:
  call i32 @pthread_mutex_lock(ptr %lock)
  call i32 @pthread_cond_signal(ptr %work)
  call i32 @pthread_cond_signal(ptr %work)
  call i32 @pthread_mutex_unlock(ptr %lock)
  br label %over
over:
  ret void
}

; The life of the worker whose part is `own`.
define void @serve(ptr %p, i64 %own) {
entry:
  %patience.at = getelementptr %pool, ptr %p, i32 0, i32 6
  %patience = load i64, ptr %patience.at
  %state.at = getelementptr %pool, ptr %p, i32 0, i32 0
  %asleep.at = getelementptr %pool, ptr %p, i32 0, i32 10
  %waits.at = getelementptr %pool, ptr %p, i32 0, i32 11
  %lock = getelementptr %pool, ptr %p, i32 0, i32 14
  %work = getelementptr %pool, ptr %p, i32 0, i32 15
  %done = getelementptr %pool, ptr %p, i32 0, i32 16
  br label %look
look:
  %seen = phi i64 [ 0, %entry ], [ %seen, %pause ], [ %seen, %missed ], [ %seen, %awake ], [ %number, %leave ]
  %looks = phi i64 [ 0, %entry ], [ %looked, %pause ], [ %looks, %missed ], [ 0, %awake ], [ 0, %leave ]
  %state = load atomic i64, ptr %state.at acquire, align 8
  %number = lshr i64 %state, 32
  %open.bit = and i64 %state, 2147483648
  %open = icmp ne i64 %open.bit, 0
  %new = icmp ne i64 %number, %seen
  %there = and i1 %open, %new
  br i1 %there, label %join, label %idle
join:
  %entered = add i64 %state, 1
  %swap = cmpxchg ptr %state.at, i64 %state, i64 %entered acq_rel acquire
  %in = extractvalue { i64, i1 } %swap, 1
  br i1 %in, label %help, label %missed
missed:
  br label %look
help:
  call void @wake(ptr %p)
  call void @take(ptr %p, i64 %own)
  %before = atomicrmw sub ptr %state.at, i64 1 seq_cst
  %others.bits = and i64 %before, 2147483647
  %last = icmp eq i64 %others.bits, 1
  %waits = load atomic i32, ptr %waits.at seq_cst, align 4
  %asked = icmp ne i32 %waits, 0
  %tell = and i1 %last, %asked
  br i1 %tell, label %told, label %leave
told:
  call i32 @pthread_mutex_lock(ptr %lock)
  call i32 @pthread_cond_signal(ptr %done)
  call i32 @pthread_mutex_unlock(ptr %lock)
  br label %leave
leave:
  br label %look
idle:
  %looked = add i64 %looks, 1
  %tired = icmp ugt i64 %looked, %patience
  br i1 %tired, label %sleep, label %pause
pause:
  call void @pass(i64 %looked)
  br label %look
sleep:
  call i32 @pthread_mutex_lock(ptr %lock)
  atomicrmw add ptr %asleep.at, i32 1 seq_cst
  br label %check
check:
  %now = load atomic i64, ptr %state.at seq_cst, align 8
  %now.number = lshr i64 %now, 32
  %now.bit = and i64 %now, 2147483648
  %now.open = icmp ne i64 %now.bit, 0
  %now.new = icmp ne i64 %now.number, %seen
  %called = and i1 %now.open, %now.new
  br i1 %called, label %awake, label %still
still:
  call i32 @pthread_cond_wait(ptr %work, ptr %lock)
  br label %check
awake:
  atomicrmw sub ptr %asleep.at, i32 1 seq_cst
  call i32 @pthread_mutex_unlock(ptr %lock)
  br label %look
}

; fn(args, begin, end) for ranges that cover 0 .. extent-1, and 0; or what a range gave that failed, after which no more
; are begun. While the workers are another caller's, this one goes through small ranges by itself.
define i32 @run(ptr %p, ptr %fn, ptr %args, i64 %extent) {
entry:
  %patience.at = getelementptr %pool, ptr %p, i32 0, i32 6
  %patience = load i64, ptr %patience.at
  %state.at = getelementptr %pool, ptr %p, i32 0, i32 0
  %fn.at = getelementptr %pool, ptr %p, i32 0, i32 2
  %args.at = getelementptr %pool, ptr %p, i32 0, i32 3
  %parts.at = getelementptr %pool, ptr %p, i32 0, i32 4
  %shares.at = getelementptr %pool, ptr %p, i32 0, i32 5
  %parts = load i64, ptr %parts.at
  %shares = load i64, ptr %shares.at
  %ranges = mul i64 %parts, %shares
  %failed.at = getelementptr %pool, ptr %p, i32 0, i32 8
  %waits.at = getelementptr %pool, ptr %p, i32 0, i32 11
  %called.at = getelementptr %pool, ptr %p, i32 0, i32 12
  %lock = getelementptr %pool, ptr %p, i32 0, i32 14
  %done = getelementptr %pool, ptr %p, i32 0, i32 16
  br label %ask
ask:
  %begin = phi i64 [ 0, %entry ], [ %end, %alone ]
  %left = sub i64 %extent, %begin
  %some = icmp sgt i64 %left, 0
  br i1 %some, label %try, label %well
well:
  ret i32 0
try:
  %swap = cmpxchg ptr %called.at, i32 0, i32 1 acquire monotonic
  %first = extractvalue { i32, i1 } %swap, 1
  br i1 %first, label %lead, label %alone
alone:
  %part = udiv i64 %left, %ranges
  %none = icmp eq i64 %part, 0
  %count = select i1 %none, i64 1, i64 %part
  %end = add i64 %begin, %count
  %code = call i32 %fn(ptr %args, i64 %begin, i64 %end)
  %bad = icmp ne i32 %code, 0
  br i1 %bad, label %fail, label %ask
fail:
  ret i32 %code
lead:
  store ptr %fn, ptr %fn.at
  store ptr %args, ptr %args.at
  call void @deal(ptr %p, i64 %begin, i64 %extent)
  store atomic i32 0, ptr %failed.at monotonic, align 4
  %state = load atomic i64, ptr %state.at monotonic, align 8
  %number = lshr i64 %state, 32
  %another = add i64 %number, 1
  %word = shl i64 %another, 32
  %open = or i64 %word, 2147483648
  store atomic i64 %open, ptr %state.at seq_cst, align 8
  call void @wake(ptr %p)
  call void @take(ptr %p, i64 0)
  %closed = atomicrmw and ptr %state.at, i64 -2147483649 seq_cst
  br label %look
look:
  %looks = phi i64 [ 0, %lead ], [ %looked, %pause ]
  %now = load atomic i64, ptr %state.at acquire, align 8
  %in = and i64 %now, 2147483647
  %alone.now = icmp eq i64 %in, 0
  br i1 %alone.now, label %over, label %wait
wait:
  %looked = add i64 %looks, 1
  %tired = icmp ugt i64 %looked, %patience
  br i1 %tired, label %sleep, label %pause
pause:
  call void @pass(i64 %looked)
  br label %look
sleep:
  call i32 @pthread_mutex_lock(ptr %lock)
  store atomic i32 1, ptr %waits.at seq_cst, align 4
  br label %check
check:
  %then = load atomic i64, ptr %state.at seq_cst, align 8
  %still.in = and i64 %then, 2147483647
  %gone = icmp eq i64 %still.in, 0
  br i1 %gone, label %awake, label %still
still:
  call i32 @pthread_cond_wait(ptr %done, ptr %lock)
  br label %check
awake:
  store atomic i32 0, ptr %waits.at seq_cst, align 4
  call i32 @pthread_mutex_unlock(ptr %lock)
  br label %over
over:
  %failed = load atomic i32, ptr %failed.at monotonic, align 4
  store atomic i32 0, ptr %called.at release, align 4
  ret i32 %failed
}
