; Everything that a module's top level can hold, in the ways that LLVM prints it.
source_filename = "zoo @f \22quoted\22.c"
target triple = "aarch64-unknown-linux-musl"

module asm ".pushsection .data"
module asm "asm_says: .quad asm_known"
module asm ".popsection"

%pair = type { i32, ptr }
%"class.odd name<@f>" = type { <4 x float>, [2 x %pair] }

$linkonce = comdat any
$"odd comdat" = comdat any
$_ZN1AC5Ev = comdat any

@0 = private unnamed_addr constant [12 x i8] c"first @f $x\00"
@1 = private unnamed_addr constant [6 x i8] c"\22@g\22 \00"
@.str = private unnamed_addr constant [3 x i8] c"}\0A\00", align 1
@table = internal constant [2 x ptr] [ptr @helper, ptr @.str], align 8
@"odd name" = internal global %pair { i32 1, ptr @"odd function" }, section "odd section", align 8
@asm_known = internal global i32 5, align 4
@tls = internal thread_local(localdynamic) global i32 3, align 4
@tls.alias = thread_local alias i32, ptr @tls
@outside = external global i32, align 4
@weak_outside = extern_weak global i32
@weak_inside = weak global i32 4
@common = common global [4 x i32] zeroinitializer, align 4
@linkonce_data = linkonce_odr constant i32 7, comdat($linkonce), align 4
@protected_data = protected constant [2 x i32] [i32 1, i32 2], align 4
@inside = internal global [4 x i32] zeroinitializer, align 4
@inner = internal alias i32, getelementptr inbounds (i8, ptr @inside, i64 8)
@llvm.used = appending global [2 x ptr] [ptr @asm_known, ptr @local], section "llvm.metadata"
@llvm.global_ctors = appending global [1 x { i32, ptr, ptr }] [{ i32, ptr, ptr } { i32 65535, ptr @local, ptr null }]

@f.alias = alias i32 (i32), ptr @f
@weak.alias = weak alias i32 (i32), ptr @f
@_ZN1AC1Ev = linkonce_odr alias void (ptr), ptr @_ZN1AC2Ev
@chosen = ifunc i32 (i32), ptr @resolver

declare !callback !4 i32 @described(i32, ...)
declare extern_weak i32 @not_there(i32) #1
declare ptr @llvm.threadlocal.address.p0(ptr nonnull) #2
declare i32 @__gxx_personality_v0(...)

define internal ptr @resolver() {
  ret ptr @f
}

define i32 @f(i32 noundef %0) #0 {
  %2 = call i32 @helper(i32 noundef %0)
  %3 = call i32 @"odd function"(i32 %2)
  %4 = call i32 @hidden_one(i32 %3)
  %5 = call i32 @local(i32 %4)
  %6 = load i8, ptr @0, align 1
  %7 = load i8, ptr @1, align 1
  %8 = xor i8 %6, %7
  %9 = zext i8 %8 to i32
  %10 = call i32 @f.alias(i32 %9)
  %11 = call i32 @weak.alias(i32 %10)
  %12 = call i32 @chosen(i32 %11)
  %13 = load i32, ptr @inner, align 4
  %14 = add i32 %12, %13
  %15 = call ptr @llvm.threadlocal.address.p0(ptr @tls)
  %16 = load i32, ptr %15, align 4
  %17 = call ptr @llvm.threadlocal.address.p0(ptr @tls.alias)
  store i32 %14, ptr %17, align 4
  %18 = icmp eq ptr @not_there, null
  %19 = select i1 %18, i32 %16, i32 %14
  ret i32 %19
}

define internal i32 @helper(i32 %x) #0 !kind !5 {
entry:
  %target = select i1 true, ptr blockaddress(@helper, %"odd block"), ptr blockaddress(@helper, %last)
  indirectbr ptr %target, [label %"odd block", label %last]

"odd block":                                      ; preds = %entry
  %"odd value @f" = load i32, ptr @outside, align 4
  br label %last

last:                                             ; preds = %entry, %"odd block"
  %v = phi i32 [ %x, %entry ], [ %"odd value @f", %"odd block" ]
  call void asm sideeffect "nop // @f \22$0\22", "r,~{memory}"(i32 %v)
  ret i32 %v
}

define internal fastcc range(i32 0, 100) i32 @local(i32 %x) unnamed_addr #0 align 16 personality ptr @__gxx_personality_v0 {
  %p = load ptr, ptr @table, align 8
  %r = call i32 %p(i32 %x)
  %q = load i32, ptr @asm_known, align 4
  %s = add i32 %r, %q
  ret i32 %s
}

define i32 @"odd function"(i32 %x) #3 section "odd text" {
  %p = load i32, ptr @"odd name", align 4
  %l = load i32, ptr @linkonce_data, align 4
  %d = load i32, ptr @protected_data, align 4
  %w = load i32, ptr @weak_inside, align 4
  %c = load i32, ptr @common, align 4
  %1 = add i32 %p, %l
  %2 = add i32 %1, %d
  %3 = add i32 %2, %w
  %4 = add i32 %3, %c
  %5 = call i32 @f(i32 %4)
  ret i32 %5
}

define hidden i32 @hidden_one(i32 %x) #0 {
  %r = call i32 @linkonce(i32 %x)
  ret i32 %r
}

define linkonce_odr noundef i32 @linkonce(i32 %x) #0 comdat {
  %r = call i32 @cold_one(i32 %x)
  ret i32 %r
}

define internal i32 @cold_one(i32 %x) #4 {
  %r = call i32 (i32, ...) @described(i32 %x)
  ret i32 %r
}

define linkonce_odr void @_ZN1AC2Ev(ptr %this) #0 comdat($_ZN1AC5Ev) align 2 {
  store i32 1, ptr %this, align 4
  ret void
}

define void @makes(ptr %a) #0 {
  call void @_ZN1AC1Ev(ptr %a)
  ret void
}

attributes #0 = { nounwind uwtable "target-cpu"="generic" "target-features"="+neon,-dotprod" }
attributes #1 = { "target-cpu"="generic" }
attributes #2 = { nocallback nofree nosync nounwind speculatable willreturn memory(none) }
attributes #3 = { noinline nounwind optnone "target-cpu"="generic" "a"="@f" }
attributes #4 = { cold nounwind "target-cpu"="generic" }

!llvm.module.flags = !{!0}
!named.by.name = !{!1, !2}

!0 = !{i32 8, !"PIC Level", i32 2}
!1 = !{ptr @local, !"ptr @gone"}
!2 = !{ptr @f, ptr @0, ptr @resolver}
!3 = !{i64 0, i64 -1, i1 true}
!4 = !{!3}
!5 = !{!"kind"}
