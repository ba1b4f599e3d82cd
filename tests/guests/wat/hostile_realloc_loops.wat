;; Never finds a place for what the host wants to hand over.
(func (export "cabi_realloc") (param i32 i32 i32 i32) (result i32) (loop $again (br $again)) (unreachable))
