package sample

import java.nio.ByteBuffer

/** A model library in an Android application. Buffers are direct, in native byte order, of the sizes in face.h. */
class Face(threads: Int) : AutoCloseable {
    private var context = create(threads)

    init {
        check(context != 0L) { "no context: out of memory, or a number of threads that is not 0 to 1024" }
    }

    fun run(input: ByteBuffer, output: ByteBuffer) {
        val status = run(context, input, output)
        check(status == 0) { "the model's status is $status (enum mavcg_status of face.h)" }
    }

    override fun close() {
        destroy(context)
        context = 0
    }

    private external fun create(threads: Int): Long
    private external fun run(context: Long, input: ByteBuffer, output: ByteBuffer): Int
    private external fun destroy(context: Long)

    private companion object {
        init {
            System.loadLibrary("face_jni") // needs libface.so, which is loaded with it
        }
    }
}
