/* The native part of Face.kt: a model with one input and one output, on direct buffers. */
#include "face.h"

#if defined(__has_include) && __has_include(<jni.h>)
#include <jni.h>
#else
#include "jni_subset.h"
#endif

JNIEXPORT jlong JNICALL Java_sample_Face_create(JNIEnv *env, jobject self, jint threads) {
    (void)env, (void)self;
    const face_options options = {threads, 0, {0, 0}};
    face_context *context = NULL;
    int status = face_create(&options, &context);
    return status == MAVCG_OK ? (jlong)(intptr_t)context : 0;
}

JNIEXPORT jint JNICALL Java_sample_Face_run(JNIEnv *env, jobject self, jlong context, jobject input, jobject output) {
    (void)self;
    const void *inputs[] = {(*env)->GetDirectBufferAddress(env, input)};
    void *outputs[] = {(*env)->GetDirectBufferAddress(env, output)};
    const size_t input_bytes[] = {(size_t)(*env)->GetDirectBufferCapacity(env, input)};
    const size_t output_bytes[] = {(size_t)(*env)->GetDirectBufferCapacity(env, output)};
    size_t input_count, output_count;
    face_inputs(&input_count);
    face_outputs(&output_count);
    if (input_count != 1 || output_count != 1) return MAVCG_ERROR_SIZE;
    return face_run_sized((face_context *)(intptr_t)context, inputs, input_bytes, outputs, output_bytes);
}

JNIEXPORT void JNICALL Java_sample_Face_destroy(JNIEnv *env, jobject self, jlong context) {
    (void)env, (void)self;
    face_destroy((face_context *)(intptr_t)context);
}
