/* The two functions of JNI that face_jni.c calls, where there is no <jni.h>: their slots in the function table are those
 * of the Java Native Interface Specification, chapter 4 (GetDirectBufferAddress 230, GetDirectBufferCapacity 231). */
#ifndef JNI_SUBSET_H
#define JNI_SUBSET_H

#include <stdint.h>

#define JNIEXPORT __attribute__((visibility("default")))
#define JNICALL
typedef int32_t jint;
typedef int64_t jlong;
typedef void *jobject;
struct JNINativeInterface;
typedef const struct JNINativeInterface *JNIEnv;
struct JNINativeInterface {
    void *slots_before[230];
    void *(*GetDirectBufferAddress)(JNIEnv *env, jobject buffer);
    jlong (*GetDirectBufferCapacity)(JNIEnv *env, jobject buffer);
};

#endif
